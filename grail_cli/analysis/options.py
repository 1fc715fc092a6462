"""What an analysis is made with: the credit settings, temperature and section of a preset, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..credit.settings import CreditSettings
from ..prompts import PromptSettings

if TYPE_CHECKING:
    from ..presets import Resolved
    from ..presets.schema import AnalyzeSection


@dataclass(frozen=True)
class Options:
    """Everything that the numbers depend on besides model and texts."""

    settings: CreditSettings
    temperature: float
    section: AnalyzeSection
    prompts: PromptSettings
    dtype: str = "auto"
    revision: str | None = None  # on the Hub
    trust_remote_code: bool = False
    compare: tuple[str, ...] = ()
    faithful: bool = False

    @property
    def source(self) -> dict:
        """What loads tokenizer and model as the preset says."""
        return {"revision": self.revision, "trust_remote_code": self.trust_remote_code}

    def facts(self) -> dict:
        section = {k: v for k, v in self.section.model_dump().items() if k not in ("texts", "batch_tokens")}
        return {"credit": self.settings.model_dump(), "dtype": self.dtype, "revision": self.revision,
                "temperature": self.temperature, "compare": list(self.compare), "faithfulness": self.faithful, **section}

    def caption(self, texts: str) -> str:
        s = self.settings
        return (f"{s.method}, leaf {s.leaf}, alignment {s.alignment}, stats {s.stats}, rollouts {s.rollouts}, "
                f"temperature {self.temperature:g}; {texts}.")


def options_of(resolved: Resolved, *, every_rollout: bool, compare: tuple[str, ...] = (), faithful: bool = False
               ) -> tuple[Options, list[str]]:
    """Options of a preset, and the notes to be said.

    grpo weights every token alike, so that GRAIL's view is analysed instead unless grpo was asked for by name.
    every_rollout: positions and correct against wrong need both sides, so that all rollouts are reweighted unless
    `credit.rollouts` was set by hand.
    """
    preset, notes, changes = resolved.preset, [], {}
    by_hand = {key for key, origin in resolved.origins.items() if origin.startswith(("--", "$"))}
    if preset.credit.method == "grpo" and "credit.method" not in by_hand:
        changes["method"] = "grail"
        notes.append("grpo weights every token alike; GRAIL's weights are shown (--set credit.method=grpo for ones)")
    if every_rollout and "credit.rollouts" not in by_hand and preset.credit.rollouts != "all":
        notes.append(f"all rollouts are reweighted here, not only the {preset.credit.rollouts} ones of training")
        changes["rollouts"] = "all"
    settings = preset.credit.model_copy(update=changes)
    temperature = settings.temperature or preset.train.temperature
    dtype = preset.model.dtype if "model.dtype" in by_hand else "auto"  # training's bfloat16 is no wish for analysis
    return Options(settings, temperature, preset.analyze, PromptSettings.of(preset), dtype,
                   preset.model.revision, preset.model.trust_remote_code, compare, faithful), notes
