"""A text classifier: embeddings and a transformer, on dicts of numbers as tokenisers make them.

    python examples/text_classifier.py

Texts are the first lines of docstrings; what is learned is which library they are from. A dict's entries go to the
arguments of `forward` that have their names, `labels` to the loss.
"""

from __future__ import annotations

import inspect
import re
import zlib

import numpy
import scipy.stats
import torch
from torch import nn

from sensecrypt import federate

LIBRARIES, WORDS, LONGEST = (numpy, scipy.stats, torch), 512, 16


class Classifier(nn.Module):
    """Embeddings, one transformer layer, the mean over words, one dense layer."""

    def __init__(self) -> None:
        """Random weights."""
        super().__init__()
        self.words = nn.Embedding(WORDS, 32, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(32, len(LIBRARIES))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        hidden = self.layer(self.words(input_ids), src_key_padding_mask=~attention_mask)
        kept = attention_mask.unsqueeze(-1)
        return self.head((hidden * kept).sum(1) / kept.sum(1))


def load() -> dict[str, torch.Tensor]:
    """All texts, tokenised: a word is the rest of its checksum."""
    rows, labels = [], []
    for label, library in enumerate(LIBRARIES):
        for name in sorted(dir(library)):
            lines = (inspect.getdoc(getattr(library, name)) or "").split("\n\n")
            words = re.findall(r"[a-z]+", lines[min(1, len(lines) - 1)].lower())[:LONGEST]
            if len(words) > 3:
                tokens = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words]
                rows.append(tokens + [0] * (LONGEST - len(tokens)))
                labels.append(label)
    ids = torch.tensor(rows)
    return {"input_ids": ids, "attention_mask": ids > 0, "labels": torch.tensor(labels)}


def main() -> None:
    """Three clients, AdamW at each."""
    data = load()
    order = torch.randperm(len(data["labels"]), generator=torch.Generator().manual_seed(0))[:1200]
    parts = [{name: tensor[order[i::4]] for name, tensor in data.items()} for i in range(4)]
    torch.manual_seed(0)
    result = federate(
        Classifier(),
        parts[:3],
        test=parts[3],
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=2e-3),
        rounds=4,
        settings={"clustering": "none"},
    )
    print(result.report())


if __name__ == "__main__":
    main()
