"""Which bytes each token adds to the decoded text, read from the tokenizer's own decoder.

Two families of decoders are understood exactly: byte-level BPE (Qwen, Llama 3, SmolLM2) and SentencePiece
pieces, with or without byte fallback (Llama 2, Mistral, Gemma). A decoder whose output for a token depends on
its neighbours (WordPiece, `</w>` suffixes, CTC) or that is not known is refused: the bytes of a token are
never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from os.path import commonprefix

from .spans import CreditError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # SentencePiece's byte fallback
_REPLACEMENT = "\ufffd".encode()


class TokenBytes:
    """A read-only map, `token_bytes[id]`: the bytes that a token adds to the decoded text.

    Special tokens add none, and neither do ids that the tokenizer does not have (a model's padded
    vocabulary), as in `decode(skip_special_tokens=True)`. Added tokens that are not special (`<think>`) add
    their text. The blank that a SentencePiece decoder takes from the very start of a text is kept: a
    completion continues its prompt.
    """

    def __init__(self, read: Callable[[int], tuple[bytes, bool]]):
        self._read, self._known = read, {}

    def _look_up(self, token: int) -> tuple[bytes, bool]:
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self._read(token)
        return found

    def __getitem__(self, token: int) -> bytes:
        return self._look_up(token)[0]

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token in this sequence.

        They differ from those of the tokens alone in one case: SentencePiece's decoder shows a run of byte
        tokens that is not valid UTF-8 as one U+FFFD a token.
        """
        found = [self._look_up(int(token)) for token in ids]
        pieces, run = [piece for piece, _ in found], []
        for index, (piece, is_byte) in enumerate([*found, (b"end", False)]):
            if is_byte:
                run.append(index)
            elif piece and run:
                if not _is_utf8(b"".join(pieces[i] for i in run)):
                    for i in run:
                        pieces[i] = _REPLACEMENT
                run = []
        return pieces

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, bytes that are no UTF-8 shown as U+FFFD."""
        return b"".join(self.pieces(ids)).decode("utf-8", errors="replace")

    @classmethod
    def from_tokenizer(cls, tokenizer) -> TokenBytes:
        """Read the map from a transformers tokenizer (or a `tokenizers.Tokenizer`).

        Raises CreditError when the decoder is none that is understood, or when it decodes a sample of the
        vocabulary to another text than the map does.
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            raise CreditError(f"{type(tokenizer).__name__} shows no decoder from which the bytes of a token could "
                              "be read; load the fast tokenizer of this model (tokenizer.json)")
        spec = json.loads(backend.to_str())
        steps = _steps(spec.get("decoder"))
        special = {token["id"] for token in spec["added_tokens"] if token["special"]}

        def read(token: int) -> tuple[bytes, bool]:
            piece = None if token in special else backend.id_to_token(token)
            return (b"", False) if piece is None else _decode(piece, steps)

        token_bytes = cls(read)
        token_bytes._check(backend, steps)
        return token_bytes

    def _check(self, backend, steps: list[dict]) -> None:
        """Compare with the tokenizer's own decoding, on a sample of the vocabulary in one text."""
        size = backend.get_vocab_size(with_added_tokens=True)
        ids = list(range(0, size, max(1, size // 512)))
        theirs, ours = backend.decode(ids, skip_special_tokens=True), self.text(ids)
        if any(step["type"] in ("Strip", "Metaspace") for step in steps):
            theirs, ours = theirs.lstrip(" "), ours.lstrip(" ")
        if theirs != ours:
            at = len(commonprefix([theirs, ours]))
            raise CreditError(f"the tokenizer decodes its vocabulary to {theirs[at:at + 20]!r} where its decoder "
                              f"announces {ours[at:at + 20]!r}; token bytes are not known")


def _steps(decoder: dict | None) -> list[dict]:
    """The decoder's steps in order, all of them understood; CreditError otherwise."""
    if decoder is None:
        raise CreditError("the tokenizer has no decoder, so blanks between tokens would be guesses; "
                          "use the model's own tokenizer.json")
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    for step in steps:
        kind = step["type"]
        if kind == "WordPiece":
            raise CreditError("WordPiece tokenizers are not supported: whether a token adds a blank depends on "
                              "its neighbours; use a model with byte-level BPE or SentencePiece")
        plain = (kind in ("ByteLevel", "ByteFallback", "Fuse", "Metaspace")
                 or kind == "Replace" and "String" in step["pattern"]
                 or kind == "Strip" and step["content"] == " " and step["stop"] == 0)
        if not plain:
            raise CreditError(f"the tokenizer's decoder step {kind!r} is not understood, so the bytes of its "
                              "tokens are not known; understood are byte-level BPE and SentencePiece")
    return steps


def _decode(piece: str, steps: list[dict]) -> tuple[bytes, bool]:
    """The bytes of one vocabulary piece after the decoder's steps, and whether it is a byte token.

    Blanks that the decoder takes from the start of a whole text are left.
    """
    for step in steps:
        match step["type"]:
            case "ByteLevel":
                return _byte_level(piece), False
            case "Replace":
                piece = piece.replace(step["pattern"]["String"], step["content"])
            case "Metaspace":
                piece = piece.replace(step["replacement"], " ")
            case "ByteFallback" if found := _BYTE_TOKEN.fullmatch(piece):
                return bytes([int(found[1], 16)]), True
    return piece.encode("utf-8"), False


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _byte_level(piece: str) -> bytes:
    """Undo the printable alphabet of byte-level BPE; a piece with any other character stands for itself."""
    try:
        return bytes(_ALPHABET[character] for character in piece)
    except KeyError:
        return piece.encode("utf-8")


def _alphabet() -> dict[str, int]:
    """Character -> byte of the byte-level alphabet (GPT-2): printable bytes are themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _alphabet()
