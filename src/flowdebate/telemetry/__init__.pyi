from .instrumentor import FlowDebateInstrumentor as FlowDebateInstrumentor
from .json_lines import JsonLines as JsonLines
from .opentelemetry import OpenTelemetry as OpenTelemetry
