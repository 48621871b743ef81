#!/usr/bin/env python3
"""CPU time of encoding on one thread: finewire and the tokenizers package, the same tokenizer, the same documents.

    bench/bench_tokenizer.py --tokenizer DIR --program build/bench/bench_tokenizer [--rounds 5] NAME=FILE ...

A FILE is a JSON array of texts, or plain text, which is cut at line ends into documents of about 2000 characters. In
each round both encode every corpus, one after the other, each in a process of its own, so that a slow spell of the
machine hits both; the ratio is taken within a round, and its median over the rounds is printed. Written to
bench/results/tokenizer-DATE.md:

    cold      the first pass of the process over the documents: no word has been seen before. Both keep words that come
              again, so within the pass they help both. This is what the ratio is about.
    warm      the second pass over the same documents, every word that a cache holds is in it

The package runs with TOKENIZERS_PARALLELISM=false, its loading is not counted, and it is given the quicker of
encode_batch and encode_batch_fast (which keeps no offsets), both measured. All must give the same ids."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def documents(path):
    text = path.read_text()
    if path.suffix == ".json":
        return [t.replace("\0", "") for t in json.loads(text)]
    out, part = [], ""
    for line in text.replace("\0", "").splitlines(keepends=True):
        part += line
        if len(part) > 2000:
            out.append(part)
            part = ""
    return out + [part] if part else out


def rival(folder, method):
    """Runs in a process of its own: documents come in as JSON, "cold warm ids hash" goes out."""
    from tokenizers import Tokenizer

    texts, tokenizer, seconds = json.load(sys.stdin), Tokenizer.from_file(str(folder / "tokenizer.json")), []
    for _ in range(2):
        start = time.process_time()
        encodings = getattr(tokenizer, method)(texts, add_special_tokens=False)
        seconds.append(time.process_time() - start)
    hash_, n = 0xCBF29CE484222325, 0
    for encoding in encodings:
        for id_ in encoding.ids:
            hash_ = ((hash_ ^ id_) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        n += len(encoding.ids)
    print(*seconds, n, f"{hash_:016x}")


def run(command, stdin):
    out = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True, env={**os.environ, "TOKENIZERS_PARALLELISM": "false"}).stdout.split()
    return float(out[0]), float(out[1]), (int(out[2]), out[3].decode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--note", default="", help="where the documents come from: a line of the file of results")
    parser.add_argument("--rival", help=argparse.SUPPRESS)
    parser.add_argument("corpora", nargs="*")
    options = parser.parse_args()
    if options.rival:
        return rival(options.tokenizer, options.rival)
    corpora = {name: documents(pathlib.Path(path)) for name, path in (c.split("=", 1) for c in options.corpora)}
    methods = ("encode_batch", "encode_batch_fast")
    results = {name: {program: [] for program in ("finewire",) + methods} for name in corpora}
    for _ in range(options.rounds):
        for name, texts in corpora.items():
            row = results[name]
            own = run([options.program, options.tokenizer], b"\0".join(t.encode() for t in texts) + b"\0")
            row["finewire"].append(own)
            for method in methods:
                theirs = run([sys.executable, __file__, "--tokenizer", options.tokenizer, "--rival", method], json.dumps(texts).encode())
                row[method].append(theirs)
                if theirs[2] != own[2]:
                    sys.exit(f"{name}: {own[2]} ids and their hash here, {theirs[2]} from {method}")
    import tokenizers

    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown processor")
    today = datetime.date.today().isoformat()
    lines = [f"# Encoding: finewire and tokenizers {tokenizers.__version__}", "",
             f"{today}, {cpu}, one thread, {options.rounds} interleaved rounds, medians (lowest to highest). Made by bench/bench_tokenizer.py, which says what "
             "each column is. MB of UTF-8 a second of CPU time (of the one thread: what others do on the machine counts less).", "",
             "| | documents | MB | ids | finewire cold | warm | encode_batch cold | encode_batch_fast cold | warm | ratio cold | ratio warm |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, texts in corpora.items():
        size, row = sum(len(t.encode()) for t in texts) / 1e6, results[name]

        def rate(program, which):
            rates = [size / r[which] for r in row[program]]
            return f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"

        def ratio(which):
            ratios = [min(row[m][i][which] for m in methods) / row["finewire"][i][which] for i in range(options.rounds)]
            return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"

        lines.append(f"| {name} | {len(texts)} | {size:.2f} | {row['finewire'][0][2][0]} | {rate('finewire', 0)} | {rate('finewire', 1)} | {rate('encode_batch', 0)} "
                     f"| {rate('encode_batch_fast', 0)} | {rate('encode_batch_fast', 1)} | {ratio(0)} | {ratio(1)} |")
    text = "\n".join(lines + (["", options.note] if options.note else [])) + "\n"
    print(text)
    (HERE / "results" / f"tokenizer-{today}.md").write_text(text)


if __name__ == "__main__":
    main()
