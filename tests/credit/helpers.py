"""Small networks and hand-made rollouts for the tests of token credit."""

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PhiConfig,
    Qwen3Config,
)

from grail_cli.credit import Regions, RolloutBatch

VOCAB = 40
SIZE = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=None)
CONFIGS = {
    "llama, untied": lambda: LlamaConfig(**SIZE, tie_word_embeddings=False),
    "qwen3, tied": lambda: Qwen3Config(**SIZE, head_dim=12, tie_word_embeddings=True),
    "gpt2, body named transformer": lambda: GPT2Config(
        vocab_size=VOCAB, n_embd=24, n_layer=3, n_head=2, n_positions=128, pad_token_id=0, eos_token_id=1, bos_token_id=1),
    "neox, body named gpt_neox": lambda: GPTNeoXConfig(
        **{**SIZE, "num_key_value_heads": 2}, rotary_pct=0.5, tie_word_embeddings=False),
    "phi, head with bias": lambda: PhiConfig(**{**SIZE, "num_key_value_heads": 2}, tie_word_embeddings=False),
    "mistral, sliding window": lambda: MistralConfig(**SIZE, sliding_window=6),
    "gemma2, softcap and scaled embeddings": lambda: Gemma2Config(**SIZE, head_dim=12, sliding_window=6),
}


def network(kind: str = "llama, untied", *, dtype=torch.float64, seed: int = 0, attention: str = "eager"):
    """A random network whose weights are large enough for its gradients to differ from token to token."""
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    config = CONFIGS[kind]()
    config._attn_implementation = attention
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25)
            elif "bias" in name:
                parameter.normal_(0, 0.1)
    torch.random.set_rng_state(state)
    return model.to(dtype).train()


def rollout(prompt: list[int], completion: list[int], answer: tuple[int, int] | None) -> dict:
    """A rollout whose answer is the tokens first .. last; its first and last token are the boundary."""
    regions = None
    if answer is not None:
        span = tuple(range(answer[0], answer[1] + 1))
        regions = Regions(span, span[1:-1], (span[0], span[-1]) if len(span) > 1 else span,
                          tuple(range(answer[1] + 1, len(completion))))
    return {"prompt": prompt, "completion": completion, "regions": regions, "advantage": -1.0}


def random_rollouts(count: int, seed: int = 0, *, prompts: int = 2) -> list[dict]:
    """Rollouts of `prompts` prompts of different lengths, with answers of different places and lengths."""
    draw = torch.Generator().manual_seed(seed)

    def ids(length: int) -> list[int]:
        return torch.randint(2, VOCAB, (length,), generator=draw).tolist()

    heads = [ids(3 + 2 * i) for i in range(prompts)]
    rows = []
    for i in range(count):
        length = 5 + (i * 5) % 9
        first = length // 2
        rows.append(rollout(heads[i % prompts], ids(length), (first, min(first + 1 + i % 3, length - 1))))
    return rows


def batch_of(rows: list[dict], *, prompt_side: str = "left", side: str = "right", pad_id: int = 0) -> RolloutBatch:
    prompts, prompt_mask = padded([row["prompt"] for row in rows], prompt_side, pad_id)
    completions, completion_mask = padded([row["completion"] for row in rows], side, pad_id)
    return RolloutBatch(prompts, prompt_mask, completions, completion_mask,
                        torch.tensor([float(row["advantage"]) for row in rows]), [row["regions"] for row in rows])


def padded(rows: list[list[int]], side: str, pad_id: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), pad_id)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        place = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        ids[index, place] = torch.tensor(row)
        mask[index, place] = 1
    return ids, mask


def unpadded(values: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    return [row[real.bool()] for row, real in zip(values, mask)]


def by_definition(model, row: dict, *, leaf: int = 0, temperature: float = 1.0) -> torch.Tensor:
    """Saliency of every position (P + T,), straight from the definition: one row, whole sequence, all logits.

    leaf: 0 is the input embeddings, k is hidden_states[k]. Independent of the engine: no hook, cache or
    padding.
    """
    model.eval()
    embeddings = model.get_input_embeddings()(torch.tensor([row["prompt"] + row["completion"]]))
    output = model(inputs_embeds=embeddings, output_hidden_states=True, use_cache=False)
    hidden = output.hidden_states[leaf] if leaf else embeddings
    log_p = (output.logits[0] / temperature).log_softmax(-1)
    start = len(row["prompt"])
    loss = -sum(log_p[start + t - 1, row["completion"][t]] for t in row["regions"].answer)
    gradient, = torch.autograd.grad(loss, hidden)
    model.train()
    return (gradient[0] * hidden[0]).norm(dim=-1).detach()
