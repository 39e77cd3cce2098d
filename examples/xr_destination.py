# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Two destinations of an XR router that share a memory; queries, sights and answers go over topics.

uv run python examples/xr_destination.py
"""

import asyncio

from xr_ai_conversation import ContextManager, Conversation, ConversationContextUpdate, xr
from xr_ai_conversation.models import EmbeddedModel

QUERY = xr.Topic("lab.query", xr.UserQuery)
SEEN = xr.Topic("lab.seen", ConversationContextUpdate)
VOICE = xr.VOICE_OUTPUT_TOPIC
LAB = xr.RoutingAid("Knows the lab.", eligible=lambda turn: "key" in turn.text)
WORLD = xr.RoutingAid("Knows the world.", eligible=lambda turn: "key" not in turn.text)


class Voice(xr.Agent):
    """Stands for the voice layer, which speaks what it is given piece by piece."""

    quiet = asyncio.Event()

    @xr.subscribe(VOICE)
    async def say(self, output: xr.ResponseOutput, context: xr.RuntimeContext) -> None:
        """Show a piece of an answer; the last one is empty."""
        print(f" [{context.metadata.source}]\n" if output.final else output.text, end="", flush=True)
        if output.final:
            self.quiet.set()


async def main() -> None:
    """Ask one destination, then the other."""
    async with (
        EmbeddedModel() as model,
        ContextManager(model.summaries, prompts=model.prompts, summary_context_topics=[SEEN.name]) as context,
    ):
        runtime, voice, llm = xr.AgentRuntime(), Voice(), model.answers
        destinations = {
            name: Conversation(llm, context=context, routing=aid, runtime=runtime, output_topic=VOICE)
            for name, aid in {"lab": LAB, "world": WORLD}.items()
        }
        router = xr.AgentRouter(destinations, xr.ChatDecisions(llm), query_topic=QUERY, output_topic=VOICE)
        for name, agent in {"context": context.subscriber(), "voice": voice, "router": router}.items():
            runtime.register(name, agent)
        async with runtime:
            sight = ConversationContextUpdate(text="The spare key is in drawer seven.")
            await runtime.publish(SEEN, sight, participant_id="ann", source="camera")
            for text in ("What is the capital of France?", "Where is the spare key?"):
                voice.quiet.clear()
                await runtime.publish(QUERY, xr.UserQuery(text=text), participant_id="ann")
                await voice.quiet.wait()
            await router.stop()
        print("\n".join(block.text for block in await context.blocks("ann")))


if __name__ == "__main__":
    asyncio.run(main())
