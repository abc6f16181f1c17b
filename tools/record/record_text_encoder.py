#!/usr/bin/env python3
"""Records what a text encoder of exactly 27 layers gives: its last hidden state went through the final norm.

    python3 tools/record/record_text_encoder.py models/tiny-shapes tests/fixtures/flux2
        (torch, transformers 5.24; CPU, float32)

Writes text_encoder.safetensors: `last_of_27` [512, hidden], the last third of the embedding of case cfg128.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, Qwen3ForCausalLM

PAD = 403
LENGTH = 512


def main(model, out):
    config = AutoConfig.from_pretrained(model / "text_encoder", num_hidden_layers=27)
    config.layer_types = config.layer_types[:27]
    encoder = Qwen3ForCausalLM.from_pretrained(model / "text_encoder", config=config, torch_dtype=torch.float32).eval()
    ids = json.loads((out / "fixtures.json").read_text())["cfg128"]["token_ids"]
    padded = torch.tensor([ids + [PAD] * (LENGTH - len(ids))])
    mask = (torch.arange(LENGTH) < len(ids)).long()[None]
    with torch.no_grad():
        states = encoder(input_ids=padded, attention_mask=mask, output_hidden_states=True, use_cache=False).hidden_states
    assert len(states) == 28
    save_file({"last_of_27": states[27][0].contiguous()}, out / "text_encoder.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
