#!/usr/bin/env python3
"""A run of transformers that goes on from a checkpoint of torch.save, up to where its first step would begin.

    rival_resume_torch.py MODEL FILE make    a checkpoint: fp32 weights and AdamW's moments
    rival_resume_torch.py MODEL FILE         model from its folder, tokenizer, torch.load, load_state_dict of model and optimizer

Prints the clock (CLOCK_MONOTONIC) when it is ready, and the seconds of torch.load alone and with load_state_dict."""
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, path = sys.argv[1], sys.argv[2]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
if sys.argv[3:] == ["make"]:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    sys.exit()
tokenizer = AutoTokenizer.from_pretrained(folder)
begin = time.monotonic()
saved = torch.load(path)
loaded = time.monotonic()
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
del saved
ready = time.monotonic()
print(ready, loaded - begin, ready - begin)
