"""LoRA: only the adapters of a small transformer are trained, encrypted and sent.

    python examples/lora_adapters.py

With `peft` (pip install peft) its adapters go in, and `adapter_model.safetensors` comes out.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

from sensecrypt import federate

warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded: the transformer here has random weights


def make_model() -> nn.Module:
    """A transformer with adapters; its first token is what is to be found."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    base = BertForSequenceClassification(BertConfig(vocab_size=64, num_labels=3, max_position_embeddings=32, **size))
    targets = ["query", "key", "value"]
    return get_peft_model(base, LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=32, target_modules=targets))


def batches(seed: int) -> list[dict[str, torch.Tensor]]:
    """Batches as a tokeniser makes them: the label is the first token's rest by three."""
    draw = torch.Generator().manual_seed(seed)
    ids = [torch.randint(1, 64, (16, 8), generator=draw) for _ in range(8)]
    return [{"input_ids": i, "attention_mask": torch.ones_like(i), "labels": i[:, 0] % 3} for i in ids]


def main() -> None:
    """Three clients; the loss is the model's own."""
    if importlib.util.find_spec("peft") is None:
        print("peft is not installed: pip install peft")
        return
    model = make_model()
    before = sum(each.numel() for each in model.parameters())
    result = federate(
        model,
        [batches(seed) for seed in range(3)],
        test=batches(9),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        metrics={"accuracy": lambda output, batch: (output.logits.argmax(1) == batch["labels"]).double().mean()},
        rounds=3,
        settings={"clustering": "none", "clip": 10},  # the usual bound follows from what is trained: here, it is short
    )
    print(f"{result.vectors[0].size:,} of {before:,} parameters are trained")
    print(result.report())
    with tempfile.TemporaryDirectory() as folder:
        result.model().save_pretrained(folder)
        print("saved:", ", ".join(sorted(path.name for path in Path(folder).glob("adapter*"))))


if __name__ == "__main__":
    main()
