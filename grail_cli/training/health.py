"""Alarms: a run that learns nothing, or trains on garbage, says so in a sentence instead of "succeeding".

Each alarm has a threshold in `train.alarms` (their names and defaults: `presets.schema.ALARMS`) and, where a
single batch proves nothing, a patience in generated batches. The numbers are the ones of metrics.jsonl, equal
on all ranks, so that all ranks stop alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

UNSCORED = ("verdicts/unparseable_gold", "verdicts/timeout", "verdicts/error")


@dataclass(frozen=True)
class Alarm:
    """What is wrong, in a sentence with its numbers, and what to try."""

    name: str
    sentence: str
    hint: str


class Health:
    """Looks at every step's metrics: `check(row)` gives the alarms that ring now, each once until it has been
    quiet.
    """

    def __init__(self, thresholds: Mapping[str, float]):
        self.limits = thresholds
        self._streak: dict[str, int] = {}
        self._ringing: set[str] = set()

    def check(self, row: Mapping[str, float | None]) -> list[Alarm]:
        """row: one line of metrics.jsonl. A step that generated nothing has no reward and rings nothing."""
        if row.get("reward") is None and row.get("groups_with_signal") is None:
            return []
        limits, patience = self.limits, int(self.limits["patience_batches"])
        unscored = sum(row.get(name) or 0.0 for name in UNSCORED)
        rules: list[tuple[str, bool, int, Callable[[int], tuple[str, str]]]] = [
            (
                "no_signal",
                row.get("groups_with_signal") == 0.0,
                int(limits["no_signal_batches"]),
                lambda n: (
                    f"no group had a signal in {n} generated batches (mean reward "
                    f"{row.get('reward') or 0.0:.2f}): "
                    "all rollouts of a prompt got the same reward, and nothing is learned",
                    "choose problems that the model solves sometimes, or raise train.temperature or "
                    "train.num_generations.",
                ),
            ),
            (
                "truncated",
                (row.get("completions/clipped_ratio") or 0.0) >= limits["truncated_share"],
                patience,
                lambda n: (
                    f"{row['completions/clipped_ratio']:.0%} of the completions hit "
                    "train.max_completion_length without an end "
                    f"token, {n} batches in a row",
                    "raise train.max_completion_length, or check the chat template's end token.",
                ),
            ),
            (
                "no_answer",
                1.0 - (row["answer_found"] if row.get("answer_found") is not None else 1.0)
                >= limits["no_answer_share"],
                patience,
                lambda n: (
                    f"{1.0 - row['answer_found']:.0%} of the completions have no complete \\boxed{{}}, {n} "
                    "batches in a row",
                    "check data.prompt_suffix and the chat template: the model is not told, or not able, to "
                    "box its answer.",
                ),
            ),
            (
                "unscored",
                unscored >= limits["unscored_share"],
                1,
                lambda n: (
                    f"{unscored:.0%} of the completions could not be graded (timeout, error or unparseable "
                    "gold)",
                    "look at the verdicts in completions/, and at the gold answers of these problems.",
                ),
            ),
            (
                "bounds",
                (row.get("weights/share_at_min") or 0.0) + (row.get("weights/share_at_max") or 0.0)
                >= limits["bounds_share"],
                patience,
                lambda n: (
                    f"{row['weights/share_at_min'] + row['weights/share_at_max']:.0%} of the token weights "
                    "sit at w_min or w_max, "
                    f"{n} batches in a row",
                    "lower credit.std, or widen credit.w_min and credit.w_max.",
                ),
            ),
            (
                "logp_difference",
                (row.get("sampling/sampling_logp_difference/mean") or 0.0) >= limits["logp_difference"],
                patience,
                lambda n: (
                    f"sampler and trainer disagree: mean |log-probability difference| "
                    f"{row['sampling/sampling_logp_difference/mean']:.3f}, {n} batches in a row",
                    "the sampler may hold old weights or another number format; see logs/ of the server.",
                ),
            ),
        ]
        alarms = []
        for name, wrong, after, words in rules:
            self._streak[name] = self._streak.get(name, 0) + 1 if wrong else 0
            if not wrong:
                self._ringing.discard(name)
            elif self._streak[name] >= after and name not in self._ringing:
                self._ringing.add(name)
                alarms.append(Alarm(name, *words(self._streak[name])))
        return alarms
