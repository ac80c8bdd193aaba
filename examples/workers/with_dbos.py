"""A debate as a step of a DBOS workflow: run `python with_dbos.py ORDER QUESTION`, and run it again after a crash."""

import asyncio
import sys

from dbos import DBOS, SetWorkflowID
from my_debates import STORE, run_or_resume

DBOS(config={"name": "shop", "system_database_url": STORE})


@DBOS.workflow()
async def decide(order: str, question: str) -> str:
    return await DBOS.run_step_async(None, run_or_resume, f"order-{order}", question)


async def main(order: str, question: str) -> None:
    DBOS.launch()  # resumes workflows interrupted by a crash
    with SetWorkflowID(order):
        print(await decide(order, question))
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
