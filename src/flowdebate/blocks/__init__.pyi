from .sequencer import Sequencer as Sequencer
