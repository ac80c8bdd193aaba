"""A debate as a Celery task: `celery --app with_celery worker` on each machine."""

import asyncio
import os

from celery import Celery
from my_debates import run_or_resume

app = Celery("debates", broker=os.environ["CELERY_BROKER"])
app.conf.worker_lost_wait = 1  # seconds until another process gets the task of a dead one; the default is 10


@app.task(acks_late=True, reject_on_worker_lost=True)
def hold(run_id: str, question: str) -> None:
    print(run_id, asyncio.run(run_or_resume(run_id, question)), flush=True)
