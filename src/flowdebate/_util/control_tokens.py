"""Control tokens of chat models: literal strings that affect servers wherever they occur in a message.

The list contains the special tokens of well-known tokenizers, and the tokens that chat templates put around messages
and tools. It contains literal tokens rather than patterns, so that other text, such as `List<String>`, `<|` or
`[OPTIONS]`, is not mistaken for a token. Tokens that occur in ordinary text are omitted: `<s>`, `</s>`, `<mask>`,
`<image>` and `<PRE>` are HTML or SVG elements, and `<filename>`, `[ARGS]` and `[PREFIX]` occur in usage messages.
`<unk>`, `<pad>` and `[CLS]` are omitted because they do not end a message. Sources: the model families' published
tokenizer files and chat templates, and the tables in llama.cpp (`llama-chat.cpp`, `llama-vocab.cpp`).
"""

from __future__ import annotations

__all__ = ("CONTROL_TOKENS",)


def _bars(names: str) -> tuple[str, ...]:
    """Build tokens of the form `<|name|>`."""
    return tuple(f"<|{name}|>" for name in names.split())


def _full_width(names: str) -> tuple[str, ...]:
    """Build DeepSeek and Hunyuan tokens, using fullwidth bars and replacing hyphens with U+2581."""
    return tuple(f"<\uff5c{name.replace('-', chr(0x2581))}\uff5c>" for name in names.split())


def _elements(names: str) -> tuple[str, ...]:
    """Build tokens of the form `<name>` and `</name>`."""
    return tuple(f"<{slash}{name}>" for name in names.split() for slash in ("", "/"))


def _numbered(template: str, count: int) -> tuple[str, ...]:
    return tuple(template.format(number) for number in range(count))


_SHARED = (
    *_bars("system user assistant developer tool tools function observation"),
    *_bars(
        "im_start im_end im_sep endoftext endofprompt startoftext end_of_text begin_of_text eot eom eos bos sep pad"
    ),
    *_bars("fim_prefix fim_middle fim_suffix fim_pad fim_repo fim_begin fim_hole fim_end repo_name file_sep"),
    *_bars("image video audio image_start image_end image_pad video_pad audio_start audio_end audio_pad"),
    *_elements("think tool_call tool_response"),
)
_OPENAI = _bars("start end message channel constrain return call") + _numbered("<|reserved_{}|>", 8)
_LLAMA = (
    *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<EOT>"),
    *_bars("start_header_id end_header_id eot_id eom_id python_tag step_id finetune_right_pad_id finetune_right_pad"),
    *_bars("header_start header_end python_start python_end patch tile_x_separator tile_y_separator"),
    *_numbered("<|reserved_special_token_{}|>", 256),
)
_MISTRAL = (
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[CALL_ID]", "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"),
    *("[THINK]", "[/THINK]", "[IMG_BREAK]", "[IMG_END]", "[BEGIN_AUDIO]", "[TRANSCRIBE]"),
    *_numbered("<SPECIAL_{}>", 100),  # also used by Nemotron as message delimiters
)
_GEMMA = (
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
    *("<image_soft_token>", "<start_of_audio>", "<end_of_audio>", "<audio_soft_token>"),
    *("<start_function_declaration>", "<end_function_declaration>", "<start_function_call>", "<end_function_call>"),
    *("<start_function_response>", "<end_function_response>"),
    *("<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", '<|"|>', "<|image>", "<image|>", "<|audio>"),
    *("<audio|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>"),
)
_QWEN = _bars(
    "object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start vision_end vision_pad "
    "vision_bos vision_eos audio_bos audio_eos AUDIO IMAGE VIDEO extra_0 extra_1 extra_2 extra_3 extra_4 extra_5"
)
_DEEPSEEK = (
    *_full_width("begin-of-sentence end-of-sentence -pad- User Assistant System EOT DSML begin-sys end-sys"),
    *_full_width("tool-calls-begin tool-calls-end tool-call-begin tool-call-end tool-sep"),
    *_full_width("tool-outputs-begin tool-outputs-end tool-output-begin tool-output-end"),
    *_full_width("fim-begin fim-hole fim-end search-begin search-end"),
    *_bars("EOT"),
    *_numbered("<\uff5cplace\u2581holder\u2581no\u2581{}\uff5c>", 100),
)
_HUNYUAN = (
    *_full_width("hy_begin-of-sentence hy_end-of-sentence hy_User hy_Assistant hy_System hy_EOT"),
    *_numbered("<\uff5chy_place\u2581holder\u2581no\u2581{}\uff5c>", 100),
)
_KIMI = (
    *_bars("im_user im_assistant im_system im_middle media_start media_content media_end media_pad"),
    *_bars("tool_calls_section_begin tool_calls_section_end tool_call_section_begin tool_call_section_end"),
    *_bars("tool_call_begin tool_call_argument_begin tool_call_end open close end_of_msg"),
    *("[BOS]", "[EOS]", "[EOT]", "[start_header_id]", "[end_header_id]", "◁think▷", "◁/think▷"),
)
_GLM = (
    *("[gMASK]", "[sMASK]", "<sop>", "<eop>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    *_bars(
        "begin_of_image end_of_image begin_of_video end_of_video begin_of_audio end_of_audio begin_of_box end_of_box"
    ),
    *_bars("begin_of_transcription end_of_transcription code_prefix code_middle code_suffix"),
)
_PHI = _bars("/tool /tool_call tool_call tool_response function_output function_call step raw continue summary code")
_COHERE = (
    *("<BOS_TOKEN>", "<EOS_TOKEN>", "<EOP_TOKEN>", "<MASK_TOKEN>"),
    *_bars("START_OF_TURN_TOKEN END_OF_TURN_TOKEN USER_TOKEN CHATBOT_TOKEN SYSTEM_TOKEN YES_TOKEN NO_TOKEN"),
    *_bars("GOOD_TOKEN BAD_TOKEN START_THINKING END_THINKING START_RESPONSE END_RESPONSE START_ACTION END_ACTION"),
    *_bars("START_TOOL_RESULT END_TOOL_RESULT START_OF_IMG END_OF_IMG"),
    *_numbered("<|USER_{}_TOKEN|>", 10),
    *_numbered("<|EXTRA_{}_TOKEN|>", 11),
)
_GRANITE = (
    *_bars("start_of_role end_of_role start_of_cite end_of_cite start_of_plugin end_of_plugin"),
    *("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>"),
    *("<fim-pad>", "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<jupyter_start>"),
    *("<jupyter_text>", "<jupyter_code>", "<jupyter_output>", "<commit_before>", "<commit_msg>", "<commit_after>"),
)
_MINIMAX = (
    *("]~b]", "]~!b[", "[e~[", "]!p~[", "]!d~[", "<begin_of_document>", "<end_of_document>"),
    *("<beginning_of_sentence>", "<end_of_sentence>"),
    *_elements("minimax:tool_call"),
    *("]<]image[>[", "]<]video[>[", "]<]speech[>[", "]<]start of image[>[", "]<]end of image[>["),
)
_SEED = (
    *("<seed:bos>", "<seed:eos>", "<seed:pad>"),
    *_elements("seed:think seed:tool_call seed:cot_budget_reflect"),
    *(
        "<[begin\u2581of\u2581sentence]>",
        "<[end\u2581of\u2581sentence]>",
        "<[begin_of_sentence]>",
        "<[end_of_sentence]>",
    ),
)
_OTHERS = (
    # EXAONE
    *("[|system|]", "[|user|]", "[|assistant|]", "[|tool|]", "[|endofturn|]", "[|BOS|]", "[|EOS|]"),
    # HyperCLOVA, Solar, Megrez, GigaChat, OpenChat, OpenAssistant
    *_bars("stop endofturn begin content think flush calls role_start role_end turn_end role_sep message_sep"),
    *_bars("end_of_turn prompter prefix_begin prefix_end"),
    # LFM, Apertus, nanochat, Jamba, Grok, ERNIE, dots, Step
    *_bars("tool_list_start tool_list_end tool_call_start tool_call_end tool_response_start tool_response_end"),
    *_bars("system_start system_end developer_start developer_end user_start user_end assistant_start assistant_end"),
    *_bars("inner_prefix inner_suffix tools_prefix tools_suffix output_start output_end bom separator"),
    *_bars("begin_of_sentence end_of_sentence userprompt endofuserprompt response endofresponse endofsystem"),
    *_bars("BOT CALL_START CALL_END THINK_START THINK_END plamo:bos plamo:eos plamo:pad plamo:op"),
    # InternLM, Baichuan, MiniCPM, SmolVLM, Yandex, Laguna, T5, Nemotron
    *_bars("action_start action_end interpreter plugin"),
    *_numbered("[UNUSED_TOKEN_{}]", 150),
    *("<eoh>", "<eoa>", "<IMG_CONTEXT>", "<reserved_106>", "<reserved_107>", "<C_Q>", "<C_A>", "<用户>"),
    *("<end_of_utterance>", "[SEP]", "〈|EOS|〉", "<extra_id_0>", "<extra_id_1>", "<TOOLCALL>", "</TOOLCALL>"),
    # Falcon
    *(f">>{name}<<" for name in ("QUESTION", "ANSWER", "COMMENT", "SUMMARY", "ABSTRACT", "TITLE", "DOMAIN")),
)

CONTROL_TOKENS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *_SHARED, *_OPENAI, *_LLAMA, *_MISTRAL, *_GEMMA, *_QWEN, *_DEEPSEEK, *_HUNYUAN, *_KIMI, *_GLM, *_PHI,
            *_COHERE, *_GRANITE, *_MINIMAX, *_SEED, *_OTHERS,
        )
    )
)  # fmt: skip
"""All control tokens, without duplicates."""
