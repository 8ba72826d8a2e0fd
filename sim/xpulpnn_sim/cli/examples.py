"""Examples of every command, shown by its ``--help``: what one would type, and what it does."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "doctor": (
        ("xpulpnn doctor", "what is there, what is missing and how to install it"),
        ("xpulpnn doctor --json build/tools.json", "the same for scripts"),
    ),
    "generate": (
        ("xpulpnn generate dotp -o build/rtl", "build/rtl/dotp.v and dotp.json"),
        ("xpulpnn generate ex-stage --preset ri5cy -o build/rtl", "the EX stage of the baseline"),
        ("xpulpnn generate dotp --set widths=8,4 --set multipliers=replicated", "another structure"),
    ),
    "cosim kernel": (
        ("xpulpnn cosim conv", "the papers' layer: all widths, the variants of the XpulpNN paper"),
        ("xpulpnn cosim matmul --layer 8x40x6 --bits 4 --variant nn_4x4", "one small MatMul"),
        ("xpulpnn cosim conv --engine core --bits 8 --variant nn_4x4 --grant-stalls 0.2", "on the whole core"),
        ("xpulpnn cosim conv --bits 2 --variant nn_4x4 --cores 1+8 --report build/cores.html", "shared by eight cores"),
    ),
    "cosim ulppack": (
        ("xpulpnn cosim ulppack", "products of packed operands, bit-serial and ordinary ones side by side"),
        ("xpulpnn cosim ulppack --weights 3 --activations 3 --signed --isa xpulpv2", "one pair of widths"),
        ("xpulpnn cosim ulppack --sweep all --report build/ulppack.html", "the maps and curves of the ULPPACK paper"),
    ),
    "cosim bnn": (
        (
            "xpulpnn cosim bnn --popcount hardware --cores 1+8",
            "the binarised vehicle classifier, then shared by eight cores",
        ),
    ),
    "cosim cifar10": (
        ("xpulpnn cosim cifar10 --bits 8+4", "the CIFAR-10 network layer by layer, random weights"),
        ("xpulpnn cosim cifar10 --bits 8 --cores 1+8 --report build/net.html", "shared by eight cores; its memory"),
    ),
    "net run": (
        ("xpulpnn net digits.json", "a network for a random input, on one core"),
        ("xpulpnn net run digits.json --images pictures --cores 1+8", "for images with labels, also on eight cores"),
    ),
    "net reference": (("xpulpnn net reference digits.json --images t10k-images-idx3-ubyte", "how many are right"),),
    "net import": (
        ("xpulpnn net import model.tflite -o build/model.json", "a quantised model as layers of integers"),
        (
            "xpulpnn net import model.onnx -o build/model.json --quantise 4 --images calibration.npz",
            "a model in floating point, quantised here",
        ),
    ),
    "bench": (
        ("xpulpnn bench --report build/papers.html", "all tables of the papers, and a page with plots"),
        ("xpulpnn bench --table xpulpnn --quick", "the rows of one table that take seconds"),
    ),
    "verify vectors": (
        ("xpulpnn verify vectors vectors.jsonl.gz", "every vector on the back end"),
        ("xpulpnn verify vectors vectors.jsonl --engine golden --json build/vectors.json", "on the reference models"),
    ),
    "kernel": (
        ("xpulpnn kernel conv --bits 4 -o build/conv", "a convolution as a function, with a main that tests it"),
        ("xpulpnn kernel matmul --layer 16x288x16 --bits 8 --variant nn_4x2 --no-build", "sources only"),
        ("xpulpnn kernel conv --bits 8 --variant cu_4x2 --preset xpulpnn-cu", "Compute&Update needs its core"),
    ),
    "library": (
        ("xpulpnn library -o build/library", "headers, libxpulpnn.a and a table of its functions"),
        ("xpulpnn library --kernel conv+maxpool --precision 8x8x8+4x4x4 --preset ri5cy", "a few of them"),
        ("xpulpnn library --pulp-nn -o build/pulp_nn", "with the public names of PULP-NN, for its applications"),
    ),
    "pack": (
        ("xpulpnn pack conv 8x8x16:16x3x3 weights.npz --precision 4x4x4 -o build/layer.c", "layer.c and layer.h"),
        ("xpulpnn pack linear 512:64 weights.npz --requantise thresholds -o build/layer.npz", "for scripts"),
    ),
    "cc": (
        ("xpulpnn cc hello.c -o hello.elf", "a program"),
        ("xpulpnn cc -O3 -Wall -I include main.c dot.S -lm -j 4 -o prog.elf", "options as of any C compiler"),
        ("xpulpnn cc -c conv.c pool.c -o libnn.a", "a library; then: xpulpnn cc main.c -L . -lnn"),
        ("xpulpnn cc -S --preset ri5cy dot.c", "assembly text for another core"),
        ("xpulpnn cc --cluster --cores 8 team.c -o team.elf", "for the cores of a cluster"),
        ("xpulpnn cc --headers build/sdk", "all that a build with plain GCC needs"),
    ),
    "objdump": (
        ("xpulpnn objdump prog.elf", "the code, with all instructions by name and the lines of the sources"),
        ("xpulpnn objdump prog.elf --function main --no-source", "one function"),
        ("xpulpnn objdump libnn.a --headers", "sections and symbols"),
    ),
    "run": (
        ("xpulpnn run prog.elf", "on the core, cycle by cycle"),
        ("xpulpnn run prog.elf --profile", "where the cycles go"),
        (
            "xpulpnn run prog.elf --check all --grant-stalls 0.3 --irq-rate 0.001",
            "every instruction checked under stress",
        ),
        ("xpulpnn run prog.elf --waves build/prog.fst --wave-window 1000:2000", "waveforms"),
    ),
    "iss": (
        ("xpulpnn iss prog.elf", "fast; an instruction counts as a cycle"),
        ("xpulpnn iss prog.elf --trace build/prog.txt --max-instructions 100000", "a line for every instruction"),
        ("xpulpnn iss prog.elf --dump result:64:build/result.bin", "memory after the run"),
        ("xpulpnn iss --cores 8 team.elf", "on eight cores, which take turns"),
    ),
    "verify random": (
        ("xpulpnn verify --instructions 20000", "random programs in lock step with the simulator"),
        ("xpulpnn verify --preset all --seed 1000 --keep-going -o build/failures", "all presets, every failure kept"),
    ),
    "verify costs": (("xpulpnn verify costs", "every cycle cost of the pipeline, measured"),),
    "explore": (
        ("xpulpnn explore --preset ri5cy,xpulpnn --kernel matmul:8:nn_4x4", "two configurations side by side"),
        ("xpulpnn explore --top dotp --sweep multipliers=shared,replicated --liberty cells.lib", "a sweep, your cells"),
        ("xpulpnn explore --top dotp --flow ecp5,ice40 --seeds 5", "on FPGAs"),
        ("xpulpnn explore --top cluster --sweep banks=16,32 --kernel conv:8:nn_4x4", "whole clusters, minutes each"),
    ),
    "prove units": (("xpulpnn prove units", "all structures of the dot-product unit against its definition"),),
    "prove emitter": (("xpulpnn prove emitter --preset ri5cy", "the emitted Verilog against Amaranth's own"),),
    "prove cluster": (
        ("xpulpnn prove cluster", "what arbiters and event unit of the 8-core cluster promise"),
        ("xpulpnn prove cluster event-unit --set cores=16 --json build/proofs.json", "of another cluster"),
    ),
    "prove pipeline": (
        ("xpulpnn prove pipeline --list", "the properties, and what they leave out"),
        ("xpulpnn prove pipeline mac_load --preset xpulpnn2", "one of them"),
        ("xpulpnn prove pipeline --self-test", "whether they find faults put into the core"),
    ),
    "prove riscv-formal": (
        (
            "xpulpnn prove riscv-formal --riscv-formal ~/riscv-formal --checks insn_add+pc_fwd",
            "two checks of the paper's core",
        ),
        ("xpulpnn prove riscv-formal --preset ri5cy --jobs 4", "all checks, those of an earlier run as they came out"),
        ("xpulpnn prove riscv-formal --checks 'insn_c_*' --depth 12", "the compressed instructions, to cycle 12"),
    ),
    "mutate units": (
        ("xpulpnn mutate units --list", "the units that have a bench"),
        (
            "xpulpnn mutate units dotp-shared --mutants 200",
            "faults in the dot-product unit, and those that nothing finds",
        ),
        ("xpulpnn mutate units alu mult --mutants 1000 --json build/mutants.json", "going on where a run ended"),
    ),
    "completion": (
        ('eval "$(xpulpnn completion bash)"', "in ~/.bashrc"),
        ("xpulpnn completion zsh > ~/.zfunc/_xpulpnn", "in a folder of fpath"),
        ("xpulpnn completion fish > ~/.config/fish/completions/xpulpnn.fish", "read by fish"),
    ),
    "prove instructions": (
        ("xpulpnn prove instructions 'pv.add.*'", "the packed additions"),
        ("xpulpnn prove instructions --self-test", "whether the proofs find wrong statements and faults"),
    ),
    "verify cluster": (("xpulpnn verify cluster --cores 4 --banks 4+8", "random programs of four cores"),),
    "verify litmus": (("xpulpnn verify litmus --cores 4 --rounds 100", "what cores may see of each other's stores"),),
    "verify c": (("xpulpnn verify c --programs 100 --levels 2", "a hundred C programs"),),
    "verify coverage": (
        ("xpulpnn verify coverage --preset xpulpnn2 --report build/coverage.html", "a page of what is reached"),
    ),
    "mutate core": (("xpulpnn mutate core --preset ri5cy --mutants 50", "faults in a whole core"),),
    "net generate": (("xpulpnn net generate digits.json -o build/digits --build", "a C program, compiled"),),
    "net explore": (
        (
            "xpulpnn net explore model.onnx --images labelled.npz --floor 98",
            "the fastest bits that are right often enough",
        ),
    ),
}
