"""The settings of token credit: section `credit` of a preset, usable alone in a notebook.

Names and values are those of the GRAIL and OAR papers (arXiv 2606.04889, 2601.07408); the defaults are the
choices of GRAIL's reference implementation. This module imports no torch, so that a preset can be checked
without it.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .methods import METHODS

Method = Literal[tuple(METHODS)]  # a new method is a line in METHODS and nothing here


class CreditSettings(BaseModel):
    """How the advantage of a rollout is spread over its tokens.

    Raises pydantic.ValidationError when a value is outside its range or w_min <= mean <= w_max does not hold.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    method: Method = Field("grpo", description="who gets the credit; grpo weights every token alike")
    std: float = Field(0.5, gt=0, description="spread of the weights: w = mean + std * z")
    mean: float = Field(1.0, gt=0, description="weight of a token of average saliency")
    w_min: float = Field(0.5, ge=0, description="smallest weight")
    w_max: float = Field(5.0, gt=0, description="largest weight, and the weight of the boxed content")
    leaf: Literal["embeddings", "first", "middle", "last"] = Field(
        "embeddings", description="where saliency is taken: input embeddings or a decoder layer's output")
    rollouts: Literal["wrong", "correct", "all"] = Field(
        "wrong", description="rollouts that are reweighted: advantage <= 0, advantage > 0, or all (oar: default all)")
    answer_span: Literal["first", "last"] = Field(
        "first", description="the complete box that is the answer; the reward reads the last one")
    alignment: Literal["predictor", "token"] = Field(
        "predictor", description="a token takes the score of the position that emits it, or of its own position")
    stats: Literal["completion", "reasoning"] = Field(
        "completion", description="tokens that the z-score is taken over")
    pin: Literal["all", "reweighted"] = Field(
        "all", description="rollouts whose answer tokens get fixed weights")
    refresh: Literal["step", "generation"] = Field(
        "step", description="weights anew at every optimisation pass, or once a generated batch")
    temperature: float | None = Field(
        None, gt=0, description="softmax temperature of the saliency loss; null: the run's sampling temperature")

    oar_tau: float = Field(0.4, gt=0, lt=1, description="OAR: quantile below which tokens are damped")
    oar_beta: float = Field(2.0, ge=0, description="OAR: boost of the tokens above the quantile")
    oar_eps: float = Field(1e-12, gt=0, description="OAR: guard of logarithms and divisions")
    oar_noise_std: float = Field(
        1e-3, gt=0, description="OAR-G: standard deviation of the noise on the embeddings; 0 would score rounding")
    oar_draws: int = Field(1, ge=1, description="OAR-G: noise draws that are averaged")

    @model_validator(mode="before")
    @classmethod
    def _oar_takes_all_rollouts_unless_told(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("method") in ("oar_g", "oar_p"):
            return {"rollouts": "all", **values}
        return values

    @model_validator(mode="after")
    def _mean_lies_between_the_bounds(self) -> "CreditSettings":
        if not self.w_min <= self.mean <= self.w_max:
            raise ValueError(f"w_min <= mean <= w_max does not hold: {self.w_min} <= {self.mean} <= {self.w_max}")
        return self
