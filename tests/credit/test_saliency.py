"""Saliency against its definition: finite differences, whole-sequence autograd, every kind of network."""

import pytest
import torch

from grail_cli.credit import CreditSettings, compute_credit
from grail_cli.credit.batch import rows_of
from grail_cli.credit.network import unwrap
from grail_cli.credit.passes import Passes
from grail_cli.credit.saliency import answer_read, leaf_and_logits

from .helpers import CONFIGS, batch_of, by_definition, network, padded, random_rollouts, rollout, unpadded

GRAIL = CreditSettings(method="grail", rollouts="all")


def scores_of(model, rows, settings=GRAIL, temperature=1.0, **options):
    batch = batch_of(rows)
    return unpadded(compute_credit(model, batch, settings, temperature, **options).scores, batch.completion_mask)


def expected(model, row, *, shift=-1, **definition):
    start, count = len(row["prompt"]), len(row["completion"])
    positions = by_definition(model, row, **definition)
    return torch.stack([positions[start + t + shift] for t in range(count)]).float()


def test_saliency_is_the_finite_difference_of_the_answer_log_probability():
    model = network("gpt2, body named transformer").eval()  # its norms stay in float64; RMSNorm goes by float32
    row = rollout([5, 6, 7], [8, 9, 10, 11, 12, 13], (3, 4))
    ids = torch.tensor([row["prompt"] + row["completion"]])
    embeddings = model.get_input_embeddings()(ids).detach()

    def loss(embedded):
        log_p = model(inputs_embeds=embedded, use_cache=False).logits[0].log_softmax(-1)
        return -(log_p[3 + 2, 11] + log_p[3 + 3, 12]).item()

    by_hand = []
    step = 1e-5
    for token in range(6):
        position = 3 + token - 1
        parts = []
        for d in range(embeddings.shape[-1]):
            up, down = embeddings.clone(), embeddings.clone()
            up[0, position, d] += step
            down[0, position, d] -= step
            parts.append((loss(up) - loss(down)) / (2 * step) * embeddings[0, position, d].item())
        by_hand.append(sum(part * part for part in parts) ** 0.5)
    assert by_hand[5] == 0.0  # position of the answer's last token: nothing after it is read
    assert torch.allclose(scores_of(model, [row])[0], torch.tensor(by_hand), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("leaf", ["embeddings", "first", "middle", "last"])
def test_every_network_and_leaf_gives_the_definition(kind, leaf):
    model = network(kind)
    rows = random_rollouts(5)
    index = {"embeddings": 0, "first": 1, "middle": 1, "last": 2}[leaf]
    found = scores_of(model, rows, CreditSettings(method="grail", rollouts="all", leaf=leaf))
    for row, scores in zip(rows, found):
        assert torch.allclose(scores, expected(model, row, leaf=index), rtol=1e-4, atol=1e-9), row


def test_own_alignment_is_the_predictor_alignment_shifted_by_one():
    model, rows = network(), random_rollouts(4)
    own = scores_of(model, rows, CreditSettings(method="grail", rollouts="all", alignment="token"))
    for row, mine, predictor in zip(rows, own, scores_of(model, rows)):
        assert torch.equal(mine[:-1], predictor[1:])
        assert torch.allclose(mine, expected(model, row, shift=0), rtol=1e-4, atol=1e-9)


def test_a_planted_embedding_moves_the_next_token_under_predictor_and_its_own_under_token():
    model = network()
    row = rollout([5, 6, 7], [8, 9, 10, 11, 12, 13], (4, 5))
    planted = 2
    moved = {}
    for alignment in ("predictor", "token"):
        settings = CreditSettings(method="grail", rollouts="all", alignment=alignment)
        before = scores_of(model, [row], settings)[0]
        with torch.no_grad():
            model.get_input_embeddings().weight[row["completion"][planted]] *= 8
        after = scores_of(model, [row], settings)[0]
        with torch.no_grad():
            model.get_input_embeddings().weight[row["completion"][planted]] /= 8
        # the norms divide the scale out of the value, so the planted place is the one whose own factor changed
        change = (after.clamp(min=1e-12) / before.clamp(min=1e-12)).log().abs()
        moved[alignment] = int(change[:4].argmax())
    assert moved == {"predictor": planted + 1, "token": planted}


def test_temperature_divides_the_logits_and_the_settings_win_over_the_run():
    model, rows = network(), random_rollouts(2)
    hot = scores_of(model, rows, temperature=1.7)
    fixed = scores_of(model, rows, CreditSettings(method="grail", rollouts="all", temperature=1.7), temperature=0.3)
    for row, a, b in zip(rows, hot, fixed):
        assert torch.equal(a, b)
        assert torch.allclose(a, expected(model, row, temperature=1.7), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("budget", [1, 60_000, 10**9])
def test_the_memory_budget_changes_chunks_and_not_scores(budget):
    model, rows = network(), random_rollouts(7)
    whole = scores_of(model, rows)
    for a, b in zip(whole, scores_of(model, rows, budget=budget)):
        assert torch.allclose(a, b, rtol=1e-6)


def test_a_budget_of_nothing_still_takes_one_row_at_a_time():
    model = unwrap(network())
    reads = [answer_read(row) for row in rows_of(batch_of(random_rollouts(5)))]
    assert [len(chunk.reads) for chunk in Passes(model, budget=1).chunks(reads)] == [1] * 5
    assert sum(len(chunk.reads) for chunk in Passes(model, budget=60_000).chunks(reads)) == 5


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["llama, untied", "qwen3, tied", "phi, head with bias"])
def test_what_a_chunk_keeps_is_about_what_its_estimate_says(kind, attention):
    model = network(kind, dtype=torch.float32, attention=attention)
    rows = rows_of(batch_of([rollout([5, 6, 7], [8 + i % 20 for i in range(90)], (85, 88))] * 3))
    passes, kept = Passes(model), {}
    chunk, = passes.chunks([answer_read(row) for row in rows])

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with passes.frozen(chunk), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _, logits = leaf_and_logits(passes, chunk)
        logits.float().log_softmax(-1)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    total = sum(size for place, size in kept.items() if place not in parameters)
    assert 0.5 < total / passes.estimate(chunk) < 1.5


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("prompt_side", ["left", "right"])
def test_neither_padding_nor_company_nor_order_changes_a_row(side, prompt_side, attention):
    model, rows = network(attention=attention), random_rollouts(6, prompts=3)
    alone = [scores_of(model, [row])[0] for row in rows]
    order = [3, 0, 5, 1, 4, 2]
    batch = batch_of([rows[i] for i in order], side=side, prompt_side=prompt_side, pad_id=1)  # the end token
    credit = compute_credit(model, batch, GRAIL, 1.0)
    for i, scores in zip(order, unpadded(credit.scores, batch.completion_mask)):
        assert torch.allclose(scores, alone[i], rtol=1e-5, atol=1e-9)
    assert not credit.scores[batch.completion_mask == 0].any() and not credit.weights[batch.completion_mask == 0].any()


def test_nothing_after_the_answer_is_read():
    model, row = network(), rollout([5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], (2, 4))
    longest = []
    handle = model.model.layers[0].register_forward_hook(lambda *a: longest.append(a[2].shape[1]))
    scores = scores_of(model, [row])[0]
    handle.remove()
    assert longest == [2, 1 + 4]  # the prompt but for its last token, then that token and the four before the last one
    other = {**row, "completion": [*row["completion"][:5], 30, 31, 32]}
    assert torch.equal(scores, scores_of(model, [other])[0])


def test_a_prompt_is_read_once_for_all_its_rollouts():
    model = network()
    rows = [rollout([5, 6, 7, 8], [9 + i, 10, 11, 12], (1, 2)) for i in range(6)]
    shapes = []
    handle = model.model.layers[0].register_forward_hook(lambda *a: shapes.append(tuple(a[2].shape[:2])))
    scores_of(model, rows)
    handle.remove()
    assert shapes == [(1, 3), (6, 3)]


def test_a_prompt_is_read_once_also_for_rows_of_unlike_length_that_go_apart():
    model, shapes = network(), []
    rows = [rollout([5, 6, 7, 8], [9 + i % 20 for i in range(length)], (length - 3, length - 2))
            for length in (10, 10, 300, 301)]
    handle = model.model.layers[0].register_forward_hook(lambda *a: shapes.append(tuple(a[2].shape[:2])))
    together = scores_of(model, rows)
    handle.remove()
    assert shapes == [(1, 3), (2, 9), (2, 300)]
    for row, scores in zip(rows, together):
        assert torch.allclose(scores, scores_of(model, [row])[0], rtol=1e-5, atol=1e-9)


def test_prompts_are_remembered_in_a_quarter_of_the_budget():
    model, row = unwrap(network()), rows_of(batch_of([rollout([5, 6, 7, 8], [9, 10, 11, 12], (1, 2))]))[0]
    for budget, kept in ((10**9, 1), (1, 0)):
        passes = Passes(model, budget=budget)
        chunk, = passes.chunks([answer_read(row)])
        with passes.frozen(chunk):
            passes.prefix(chunk)
        assert len(passes._known) == kept and passes._held <= budget // 4
    (layers,) = [known for known in Passes(model)._read([row.prompt[:-1]])]
    held = sum(tensor.numel() * tensor.element_size() for layer in layers for tensor in layer)
    assert held == passes._cached(row.prompt[:-1])


def test_logits_are_formed_at_answer_positions_only():
    model, row = network(), rollout([5, 6, 7], list(range(8, 28)), (14, 16))
    widths = []
    handle = model.lm_head.register_forward_hook(lambda *a: widths.append(a[2].shape[1]))
    scores_of(model, [row])
    handle.remove()
    assert widths == [1, 3]  # the prompt's pass hands the head one position; then the answer's three


@pytest.mark.parametrize("leaf,untouched", [("first", 1), ("middle", 1), ("last", 2)])
def test_a_leaf_inside_the_network_does_not_back_propagate_below_it(leaf, untouched):
    model, rows = network(), random_rollouts(2)
    reached = set()
    handles = [layer.mlp.down_proj.register_forward_hook(
        lambda module, args, output, i=i: output.requires_grad and reached.add(i))
        for i, layer in enumerate(model.model.layers)]
    scores_of(model, rows, CreditSettings(method="grail", rollouts="all", leaf=leaf))
    for handle in handles:
        handle.remove()
    assert reached == set(range(untouched, 3))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_half_and_single_precision_follow_double(dtype, tolerance):
    rows = random_rollouts(4)
    exact = scores_of(network("qwen3, tied"), rows)
    for a, b in zip(exact, scores_of(network("qwen3, tied", dtype=dtype), rows)):
        assert torch.isfinite(b).all()
        assert ((a - b).abs() <= tolerance * a.max()).all()


def test_autocast_gives_the_scores_of_full_precision_within_its_own():
    model, rows = network(dtype=torch.float32), random_rollouts(4)
    exact = scores_of(model, rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = scores_of(model, rows)
    for a, b in zip(exact, mixed):
        assert ((a - b).abs() <= 0.1 * a.max()).all() and not torch.equal(a, b)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("leaf", ["embeddings", "middle"])
def test_gradient_checkpointing_changes_nothing(reentrant, leaf):
    settings = CreditSettings(method="grail", rollouts="all", leaf=leaf)
    model, rows = network("qwen3, tied"), random_rollouts(5)
    plain = scores_of(model, rows, settings)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    calls = []
    handle = model.model.layers[2].mlp.register_forward_pre_hook(lambda *a: calls.append(a))
    for a, b in zip(plain, scores_of(model, rows, settings, budget=1)):
        assert torch.allclose(a, b, rtol=1e-6)
    handle.remove()
    assert len(calls) == 2 * len(rows)  # each row forward, and again on the way back


def test_padded_prompts_of_one_token_have_no_prefix_to_share():
    rows = [rollout([5], [6, 7, 8, 9], (1, 2)), rollout([5, 9, 3], [6, 7, 8, 9], (0, 2))]
    model = network()
    for row, scores in zip(rows, scores_of(model, rows)):
        assert torch.allclose(scores, expected(model, row), rtol=1e-4, atol=1e-9)
    assert torch.allclose(scores_of(model, rows[:1])[0], expected(model, rows[0]), rtol=1e-4, atol=1e-9)
    assert padded([[1], [1, 2]], "left")[1].tolist() == [[0, 1], [1, 1]]
