"""Prompts that a host offers to its user: hold a debate, and make the strongest case for a position."""

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from flowdebate.prompts.escaping import quoted
from flowdebate.prompts.template import filled

_DEBATE = (
    "Hold a debate on a question with the tools of flowdebate.\n\n"
    "Question: {question}\n\n"
    "1. If it is not a plain question of yes or no, find two to four positions that exclude each other, and word each "
    "as a claim.\n"
    "2. Call start_debate with the question and these positions as `sides`, then wait_for_run until it is over.\n"
    "3. Report the strongest argument of each side, what was said against it, the verdict, and how sure it is. Say "
    "what is your own view and what the debaters said."
)
_STEELMAN = (
    "Find the strongest case for a position, and what it has to answer, with the tools of flowdebate.\n\n"
    "Position: {position}\n\n"
    "1. Word the opposite position as its best advocates would.\n"
    "2. Call start_debate with the question behind both and the two positions as `sides`, then wait_for_run until it "
    "is over.\n"
    "3. Write the case for the position as its best advocate would after this debate: only arguments that held, the "
    "strongest objection, and the best answer to it. Do not mention the debaters."
)


def add_prompts(server: MCPServer[Any]) -> None:
    """Register `debate_this` and `steelman`."""

    def debate_this(question: Annotated[str, Field(description="What to debate.")]) -> str:
        """Let language models debate a question, and report what came of it."""
        return filled(_DEBATE, question=quoted(question))

    def steelman(position: Annotated[str, Field(description="The position to defend.")]) -> str:
        """Find the strongest case for a position by debating it."""
        return filled(_STEELMAN, position=quoted(position))

    server.prompt(title="Debate this")(debate_this)
    server.prompt(title="Steelman a position")(steelman)
