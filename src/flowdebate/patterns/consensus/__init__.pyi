from .factory import CONSENSUS_FAILURES as CONSENSUS_FAILURES
from .factory import consensus as consensus
from .options import ConvergenceOptions as ConvergenceOptions
from .options import TopologyOptions as TopologyOptions
from .options import VotingOptions as VotingOptions
