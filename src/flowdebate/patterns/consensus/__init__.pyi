from .factory import CONSENSUS_FAILURES as CONSENSUS_FAILURES
from .factory import consensus as consensus
