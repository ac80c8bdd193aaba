from .tool import as_tool as as_tool
