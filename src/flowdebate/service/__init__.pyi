from .channel import Update as Update
from .evidence import evidence_in as evidence_in
from .service import Service as Service
from .state import PendingInput as PendingInput
from .state import RunDetails as RunDetails
from .state import RunPage as RunPage
from .state import RunState as RunState
