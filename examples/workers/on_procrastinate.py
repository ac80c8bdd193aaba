"""A debate as a Procrastinate job: `submit RUN_ID QUESTION` from anywhere, `work` on each machine."""

import asyncio
import sys

import procrastinate
from my_debates import STORE, run_or_resume

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=STORE))


@app.task(name="run_or_resume", retry=procrastinate.RetryStrategy(max_attempts=5, exponential_wait=2))
async def job(run_id: str, question: str) -> None:
    print(run_id, await run_or_resume(run_id, question), flush=True)


@app.periodic(cron="* * * * *")
@app.task(name="retry_stalled", queueing_lock="retry_stalled")
async def retry_stalled(timestamp: int) -> None:  # noqa: ARG001 - Procrastinate passes it; retries jobs of dead workers
    for stalled in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(stalled)


async def main(command: str, *arguments: str) -> None:
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        if command == "submit":
            run_id, question = arguments
            await job.defer_async(run_id=run_id, question=question)
        else:
            await app.run_worker_async(concurrency=8)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
