"""Programs nobody here wrote expect more of a toolchain: C++, a whole C library, GCC's command lines."""

import math
import random
import re
import shutil
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.cc_words import separate_cc_options
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain.build import Options
from xpulpnn_sw.toolchain.build_options import ClusterLayout

from ..elf import FORK, run

CORE = PRESETS["xpulpnn"]


def output(kind: str, folder: Path, name: str, text: str, **options) -> str:
    """Compile and run a program that must succeed; return what it prints."""
    source, program = folder / name, folder / "a.elf"
    source.write_text(text)
    toolchain.build([source], program, compiler=kind, options=Options(config=CORE, **options))
    ran = run(program, CORE)
    assert ran.end.ok, ran.end.text + ran.errors
    return ran.output


LENGTHS = [("hh", "int"), ("h", "int"), ("", "int"), ("ll", "long long")]


def conversions(seed: int, count: int) -> list[str]:
    """Random calls of printf whose results C fixes to the last digit."""
    rng = random.Random(seed)
    reals = ["0.0", "-0.0", "0.1", "0.5", "1.5", "2.5", "9.995", "1e22", "5e-324", "1.7976931348623157e308", "99999.95"]
    lines: list[str] = []
    for _ in range(count):
        marks = "".join(mark for mark in "-+ #0" if rng.random() < 0.25)
        size = rng.choice(["", "5", "12", "30"]) + rng.choice(["", "", ".0", ".1", ".3", ".10", ".25", "."])
        if rng.random() < 0.6:
            usual = repr(rng.choice([-1, 1]) * rng.random() * 10 ** rng.randrange(-30, 30))
            value = rng.choice([*reals, "1 / zero", *[usual] * 12])
            letter = rng.choice("fFeEgG" if "324" in value else "fFeEgGaA")
        else:
            letter, (length, kind) = rng.choice("diouxX"), rng.choice(LENGTHS)
            number = rng.choice([0, 1, -1, 255, -128, 2**31 - 1, rng.getrandbits(31)])
            size, value = size + length, f"({kind}){number}"
        lines.append(f'printf("[%{marks}{size}{letter}]\\n", {value});')
    return lines


@pytest.mark.flow
def test_printf_is_that_of_the_host(kind: str, tmp_path: Path):
    host = shutil.which("gcc") or shutil.which("cc")
    if host is None:
        pytest.skip("no C compiler for this machine")
    lines = conversions(seed=58, count=300)
    lines += [f'printf("[%{form}]\\n", {value});' for form, value in (
        ("5s][%-5s][%.2s][%3c", '"ab", "cd", "xyz", 65'), ("*.*f][%-*d", "10, 2, 3.14159, 6, 5"),
        ("3$s %1$d %2$.2f", '1, 2.5, "x"'), ("2$*1$d", "6, 7"), (".2Lf %d", "1.5L, 42"), ("ls", 'L"wide"'),
        ("p] [%zu] [%jd] [%td", "(void *)16, (size_t)1, (intmax_t)2, (ptrdiff_t)3"),
    )]  # fmt: skip
    text = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\nvolatile double zero = 0;\nint main(void) {\n"
    text += "\n".join([*lines, 'int n; printf("abc%n", &n); printf(" %d\\n", n);', "return 0;\n}\n"])
    printed = output(kind, tmp_path, "main.c", text, opt="-O0", extra=("-w",))
    subprocess.run([host, "-w", "main.c", "-o", "host"], cwd=tmp_path, check=True)
    expected = subprocess.run([tmp_path / "host"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == expected.splitlines()


def number_texts(seed: int, count: int) -> list[str]:
    """Decimal numbers, many of them close to the middle between two of double or single precision."""
    rng = random.Random(seed)
    greatest = "1.79769313486231580793728971405303415"
    texts = ["9007199254740993.0000001", "2.4703282292062328e-324", f"{greatest}07e308", f"{greatest}08e308", "1e-9999"]
    texts += ["16777217.000000001", "123456789012345678", "0.1234567890123456789e-9999"]
    for _ in range(count):
        digits = str(rng.getrandbits(rng.choice((40, 70, 200))) + 1)
        texts.append(
            f"{rng.choice(('', '-', '+'))}{digits[:3]}.{digits[3:]}e{rng.randrange(-330, 320) - rng.randrange(3)}"
        )
        digits = rng.choice((24, 53))
        middle = Fraction(2 * rng.getrandbits(digits) | 1 | 2 << digits) * Fraction(2) ** rng.randrange(-120, 60)
        change = rng.choice((-1, 0, 1)) * Fraction(1, 10 ** rng.randrange(1, 60))
        texts.append(format(Decimal((middle + change).numerator) / Decimal((middle + change).denominator), "f"))
    return texts


@pytest.mark.flow
def test_numbers_are_read_to_the_last_digit(kind: str, tmp_path: Path):
    with localcontext(prec=400):
        texts = number_texts(seed=58, count=30)
    pairs = [(float(text), single(Fraction(text))) for text in texts]
    values = ", ".join(f'"{text}"' for text in texts)
    program = (
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n"
        f"const char *texts[] = {{{values}}};\n"
        f'for (int i = 0; i < {len(texts)}; ++i) printf("%a %a\\n", strtod(texts[i], NULL), strtof(texts[i], NULL));\n'
        "return 0;\n}\n"
    )
    lines = output(kind, tmp_path, "main.c", program).splitlines()
    read = [tuple(map(float.fromhex, line.split())) for line in lines]
    assert [text for text, pair, got in zip(texts, pairs, read, strict=True) if repr(pair) != repr(got)] == []


def single(number: Fraction) -> float:
    """The nearest number of single precision, the even one of two."""
    size = abs(number)
    exponent = -149
    while size / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    rounded = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent
    return (float(rounded) if rounded < 1 << 128 else math.inf) * (-1 if number < 0 else 1)


NAMES = """
clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fputc fputs fread freopen fscanf fseek ftell
fwrite getchar perror putchar puts remove rename rewind scanf setvbuf sscanf tmpfile tmpnam ungetc vsnprintf
quick_exit atan2l hypotl logl sqrtl
abort aligned_alloc atexit atof atoll bsearch calloc div _Exit getenv ldiv lldiv mbstowcs mbtowc qsort
qsort_r realloc strtod strtof strtold strtoull system wcstombs posix_memalign setenv memccpy strcoll
strcspn strdup strerror strpbrk strsep strspn strtok strtok_r strxfrm strcasecmp memmem strlcpy
asctime clock ctime difftime gmtime localtime mktime strftime time wcslen wcscpy wcrtomb raise signal
setlocale localeconv imaxdiv strtoimax getopt regcomp
"""


@pytest.mark.flow
def test_the_c_library_links(kind: str, tmp_path: Path):
    declared = "".join(f"extern char {name}[];\n" for name in NAMES.split())
    uses = "".join(f"sink = {name};\n" for name in NAMES.split())
    assert output(kind, tmp_path, "main.c", f"{declared}void *volatile sink;\nint main(void) {{\n{uses}return 0;\n}}\n",
                  extra=("-w", "-fno-builtin")) == ""  # fmt: skip


LIBRARY = """\
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static _Thread_local int counter = 5, zero[3];
static void last(void) { fputs("last\\n", stdout); }
static void late(void) { fputs("late ", stdout); }
old_style(number) { return number / 2; }
int main(int argc, char **argv) {
    char words[FOPEN_MAX] = "a,b;c", *left, text[FILENAME_MAX];
    struct tm *day;
    time_t second = 86400 * 365;
    for (char *word = strtok_r(words, ",;", &left); word != NULL; word = strtok_r(NULL, ",;", &left))
        printf("%s ", word);
    int number;
    float real;
    printf("%d", sscanf("12 of 0.5", "%d of %f", &number, &real));
    printf(" %d %g %.17g %ld\\n", number, real, strtod("0.1e1", NULL), (long)strtoul("ff", NULL, 16));
    day = gmtime(&second);
    strftime(text, sizeof text, "%Y-%m-%d", day);
    printf("%s %d %d %d\\n", text, getchar() == EOF, fopen("none", "r") == NULL, errno == ENOENT);
    char *place = aligned_alloc(256, 100), *other = malloc(64);
    printf("%d %d %d\\n", (int)((size_t)place % 256), place != NULL, clock() >= 0);
    free(place);
    free(other);
    printf("%d %d %d %d\\n", ++counter, zero[2]++, argc, argv[0] != NULL && argv[argc] == NULL);
    long double whole, part = modfl(number / 8.0L, &whole);
    printf("%.6Lf %.6Lf %Lg %Lg\\n", atan2l(number, 5.0L), hypotl(0.25L * number, 4.0L), whole, part);
    at_quick_exit(last);
    at_quick_exit(late);
    quick_exit(old_style(1));
}
"""


@pytest.mark.flow
def test_the_c_library_works(kind: str, tmp_path: Path):
    lines = ["a b c 2 12 0.5 1 255", "1971-01-01 1 1 1", "0 1 1", "6 0 1 1", "1.176005 5.000000 1 0.5", "late last", ""]
    assert output(kind, tmp_path, "main.c", LIBRARY, extra=("-w",)) == "\n".join(lines)


CPP = """\
#include <pmsis.h>
#include <stdio.h>
#include <xpulpnn.h>
#include <xpulpnn_rt.h>
struct Base {
    const char *name;
    Base(const char *name) : name(name) { printf("+%s\\n", name); }
    virtual ~Base() { printf("-%s\\n", name); }
    virtual int value() = 0;
};
struct Derived : Base {
    using Base::Base;
    int value() override { return 7; }
};
Derived first("first");
static Derived second("second");
template <class T> T sum(T a, T b) { return a + b; }
static Base &local() {
    static Derived local("local");
    return local;
}
struct alignas(64) Wide { char bytes[64]; };
static void bye() { printf("bye\\n"); }
extern "C" __attribute__((destructor)) void last() { printf("last\\n"); }
int main() {
    atexit(bye);
    Base *base = new Derived("heap");
    printf("%d %g %d\\n", base->value(), sum(1.5, 2.0), local().value());
    delete base;
    Wide *wide = new Wide;
    int *numbers = new int[10](), offset = 1;
    auto add = [&](int x) { return x + offset + numbers[9]; };
    int result = (int)((size_t)wide % 64) + add(-1);
    delete wide;
    delete[] numbers;
    return result;
}
"""


@pytest.mark.flow
def test_cpp(kind: str, tmp_path: Path):
    names = "+first +second +heap +local|7 3.5 7|-heap -local bye -second -first last"
    expected = [line for part in names.split("|") for line in ([part] if "." in part else part.split())]
    assert output(kind, tmp_path, "main.cpp", CPP).splitlines() == expected


STANDARD_CPP = """\
#include <algorithm>
#include <complex>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
int main() {
    std::vector<int> numbers{3, 1, 2};
    std::sort(numbers.begin(), numbers.end(), std::greater<>());
    std::map<std::string, int> counts;
    for (auto word : {"b", "a", "b"})
        ++counts[word];
    auto text = std::make_unique<std::string>("a text that is longer than its inner buffer");
    *text += '!';
    std::printf("%d %d %d %s\\n", numbers[0], counts["b"], (int)counts.size(), text->c_str());
    std::complex<long double> up(0, counts["b"]);
    std::printf("%g %.3Lf\\n", std::abs(std::complex<double>(3, 4)), std::arg(up));
}
"""


@pytest.mark.flow
def test_standard_library_of_cpp(kind: str, tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    if kind == "zig":
        text = "3 2 2 a text that is longer than its inner buffer!\n5 1.571\n"
        assert output(kind, tmp_path, "main.cpp", STANDARD_CPP) == text
        return
    monkeypatch.chdir(tmp_path)
    Path("main.cpp").write_text(STANDARD_CPP)
    assert cli.main(["cc", "--compiler", kind, "main.cpp"]) == 1
    assert "error: <algorithm> needs --compiler zig" in capfd.readouterr().err


@pytest.mark.flow
def test_thread_local_variables_of_a_cluster(compiler: str, tmp_path: Path):
    with pytest.raises(toolchain.CompileError, match="must have no thread-local variables"):
        output(compiler, tmp_path, "main.c", "_Thread_local int t = 1;\nint main(void) { return t - 1; }\n",
               cluster=ClusterLayout(cores=2))  # fmt: skip


WORDS = {
    "m.o -o a.elf lib.a": ["m.o", "lib.a", "-o", "a.elf"],
    "a.c -I inc b.S -Iother": ["a.c", "b.S", "-I", "inc", "-I", "other"],
    "-O a.c": ["a.c", "-O", "1"],
    "-O 3 -c -Os a.c -o a -c -ob --ram 4M --ram=8M": ["a.c", "-O", "s", "-c", "-o", "b", "--ram", "8M"],
    "-u f -no-pie a.c -Xassembler -L": ["a.c", "--pass=-Wl,-u,f", "--pass=-no-pie", "--pass=-Xassembler", "--pass=-L"],
    "-X -fno-builtin -X=-w a.c": ["a.c", "--pass=-fno-builtin", "--pass=-w"],
    "-MMD -MT x.o -MF x.c -c -o x.obj x.cpp": ["x.cpp", "--pass=-MMD", "--pass=-MT", "--pass=x.o", "--pass=-MF",
                                               "--pass=x.c", "-c", "-o", "x.obj"],
    "-static -s -x c a.c": ["a.c", "--pass=-Wl,--strip-debug"],
    "-MM a.c -U X -lm --output y.o": ["a.c", "-E", "--pass=-MM", "--pass=-UX", "--link=-lm", "--output", "y.o"],
    "@words z.o": ["more file.c", "z.o", "-D", "NAME=a b"],
}  # fmt: skip


@pytest.mark.parametrize("typed", WORDS)
def test_command_lines_of_gcc(typed: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words").write_text("'more file.c' \"-DNAME=a b\"\n")
    assert separate_cc_options(typed.split()) == WORDS[typed]


@pytest.mark.parametrize("option", ["-pthread", "-rdynamic", "-shared", "-Zz"])
def test_other_options_are_refused_in_one_line(option: str, refused, tmp_path: Path):
    assert refused("cc", option, tmp_path / "main.c").startswith(f"Unknown option: {option}")


@pytest.mark.flow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake(compiler: str, tmp_path: Path, monkeypatch):
    """The toolchain file that --headers writes builds a library and a test, which runs on the simulator."""
    tool = Path(sys.executable).with_name("xpulpnn-cc")
    if not tool.is_file():
        pytest.skip("xpulpnn-cc is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    assert cli.main(["cc", "--headers", "sdk"]) == 0
    Path("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(small C CXX)\nadd_library(twice twice.c)\n"
        "add_executable(main main.cpp)\ntarget_link_libraries(main twice m)\nenable_testing()\n"
        "add_test(NAME main COMMAND main -v 8)\nadd_compile_options(-O3 -O1)\n"
    )
    Path("twice.c").write_text("int twice(int x) { return 2 * x; }\n")
    Path("main.cpp").write_text(
        '#include <stdlib.h>\nextern "C" int twice(int);\n'
        "int main(int argc, char **argv) { return argc != 3 || argv[1][1] != 'v' || twice(4) - atoi(argv[2]); }\n"
    )
    for words in ("-S . -B b -DCMAKE_TOOLCHAIN_FILE=sdk/xpulpnn.cmake", "--build b"):
        subprocess.run(["cmake", *words.split()], check=True)
    done = subprocess.run(["ctest"], cwd="b", capture_output=True, text=True, check=True)
    assert re.search("100% tests passed", done.stdout)


CLINT = """\
#include <stdio.h>
#include <xpulpnn_rt.h>
enum { PERIOD = 1000 };
static volatile unsigned ticks, software, pending, low;
static uint64_t first, last;
void xp_irq_7(void) {
    last = xp_time();
    XP_CLINT_MTIMECMP += PERIOD;
    pending = XP_CSR_READ(XP_MIP);
    low = *(volatile unsigned char *)XP_CLINT_MTIME;
    ++ticks;
}
void xp_irq_3(void) {
    XP_CLINT_MSIP = 0;
    ++software;
}
int main(void) {
    int high = (int)(XP_CLINT_MTIMECMP == ~0ull);
    XP_CLINT_MTIMECMP = first = xp_time() + PERIOD;
    xp_irq_enable(7);
    xp_irq_enable(3);
    xp_irq_on();
    while (ticks < 5) {
    }
    XP_CLINT_MSIP = 1;
    while (software == 0) {
    }
    while (ticks < 20)
        xp_wait_for_interrupt();
    xp_irq_off();
    uint32_t late = (uint32_t)(last - first) - 19 * PERIOD;
    printf("%d %u %u %d\\n", high, ticks, software, late < PERIOD / 4);
    return 0;
}
"""


@pytest.mark.cosim
@pytest.mark.parametrize("command", ["iss", "run --lockstep", "run --check all"])
def test_clint(command: str, compiler: str, tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(CLINT)
    toolchain.build([Path("main.c")], Path("a.elf"), compiler=compiler, options=Options(config=CORE))
    capfd.readouterr()
    command, *options = command.split()
    assert cli.main([command, "--clint", "a.elf", *options]) == 0
    assert capfd.readouterr().out == "1 20 1 1\n"
    assert cli.main([command, "a.elf"]) == 1
    assert "outside memory: address 0x0200400" in capfd.readouterr().err


@pytest.mark.cosim
def test_clint_on_wishbone(tmp_path: Path, monkeypatch):
    """Registers beside the core's Wishbone port: no access to them reaches the memory outside."""
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(CLINT)
    toolchain.build([Path("main.c")], Path("a.elf"), options=Options(config=CORE))
    library = model_library("wishbone-clint", CORE)
    result = run_program(load(Path("a.elf")), CORE, Machine(clint=True), library=library)
    assert (result.exit.ok, result.interrupts, result.output) == (True, 21, b"1 20 1 1\n"), result.exit.text


CLUSTER_CLINT = (
    FORK
    + """\
static volatile unsigned ticks[XP_CORES], software[XP_CORES];
void xp_irq_7(void) {
    (&XP_CLINT_MTIMECMP)[xp_core()] = ~0ull;
    ++ticks[xp_core()];
}
void xp_irq_3(void) {
    (&XP_CLINT_MSIP)[xp_core()] = 0;
    ++software[xp_core()];
}
static void each(void *unused) {
    unsigned core = xp_core(), next = (core + 1) % XP_CORES;
    (&XP_CLINT_MTIMECMP)[core] = xp_time() + 200 * (core + 1);
    xp_irq_enable(7);
    xp_irq_enable(3);
    (&XP_CLINT_MSIP)[next] = 1;
    while (ticks[core] == 0 || software[core] == 0) {
        xp_wait_for_interrupt();
        xp_irq_on();
        xp_irq_off();
    }
    xp_barrier();
}
int main(void) {
    int high = XP_CLINT_MTIMECMP == ~0ull;
    xp_fork(XP_CORES, each, NULL);
    for (unsigned core = 0; core < XP_CORES; ++core)
        printf("%u%u ", ticks[core], software[core]);
    return !high;
}
"""
)


@pytest.mark.cosim
def test_clint_in_a_cluster(tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    """Each core of a cluster has lines of its own; without the setting there are no registers."""
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(CLUSTER_CLINT)
    options = Options(config=CORE, cluster=ClusterLayout(cores=4))
    toolchain.build([Path("main.c")], Path("a.elf"), options=options)
    for words in ("iss", "iss --quantum 5", "run --lockstep", "run --check all"):
        assert cli.main([*words.split(), "--clint", "a.elf"]) == 0
        assert capfd.readouterr().out == "11 11 11 11 "
    assert cli.main(["iss", "a.elf"]) == 1
    assert "load access fault" in capfd.readouterr().err


RAISED = """\
#include <stdio.h>
#include <xpulpnn_rt.h>
static volatile unsigned seen[2];
void xp_irq_16(void) { ++seen[0]; }
void xp_irq_3(void) { ++seen[1]; }
int main(void) {
    xp_irq_enable(16);
    xp_irq_enable(3);
    xp_wait_for_interrupt();
    printf("%u %u\\n", seen[0], seen[1]);
    xp_irq_on();
    while (seen[0] < 2)
        xp_wait_for_interrupt();
    printf("%u %u\\n", seen[0], seen[1]);
    return 0;
}
"""


@pytest.mark.cosim
def test_lines_that_are_raised(tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]):
    """Each line falls when its interrupt is taken; in wfi the next one ends the wait."""
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(RAISED)
    toolchain.build([Path("main.c")], Path("a.elf"), options=Options(config=CORE))
    for command in ("iss", "iss --clint", "iss --trace t.txt", "run"):
        lines = "a.elf --irq 16@90000 --irq 16@500 --irq 3@700"
        assert cli.main([*command.split(), *lines.split()]) == 0
        assert capfd.readouterr().out == "0 0\n2 1\n", command
    assert cli.main(["iss", "a.elf", "--irq", "16@500", "--irq", "3@700"]) == 1
    assert "no interrupt can end it" in capfd.readouterr().err


FILES = """\
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char line[20], byte;
    int number, last, sum = 0;
    fpos_t second;
    struct stat about;
    FILE *text = fopen("./words.txt", "r"), *bytes = fopen("sub/bytes", "rb");
    if (text == NULL || bytes == NULL)
        return errno;
    fgets(line, sizeof line, text);
    fgetpos(text, &second);
    fscanf(text, "%*s %d", &number);
    printf("%s%d %ld\\n", line, number, ftell(text));
    fsetpos(text, &second);
    puts(fgets(line, sizeof line, text));
    printf("%d %d %d\\n", fgets(line, sizeof line, text) == NULL, fgetc(text), feof(text) != 0);
    while ((last = fgetc(bytes)) != EOF)
        sum += last;
    fseek(bytes, -3, SEEK_END);
    printf("%d %d %zu\\n", sum, fgetc(bytes), fread(line, 1, sizeof line, bytes));
    number = open("/sub/bytes", O_RDONLY);
    fstat(number, &about);
    printf("%d %d %d\\n", number, (int)about.st_size, (int)lseek(number, 700, SEEK_SET));
    number = (int)read(number, &byte, 1);
    printf("%d %d %d\\n", number, (unsigned char)byte, stat("sub", &about));
    fclose(text);
    fopen("words.txt", "w");
    printf("%d %d\\n", errno == EROFS, open("words", O_RDONLY));
    for (number = 0; fopen("empty", "r") != NULL; ++number) {
    }
    printf("%d %d\\n", number, errno == EMFILE);
    for (char **word = argv + 1; *word != NULL; ++word)
        puts(*word);
    return argc - 4;
}
"""


@pytest.mark.cosim
@pytest.mark.parametrize("command", ["iss", "run --lockstep"])
def test_files_and_arguments(
    command: str, compiler: str, tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str], refused
):
    monkeypatch.chdir(tmp_path)
    content = bytes(range(256)) * 3
    for name, data in {"words.txt": b"one\ntwo 22", "sub/bytes": content, "empty": b""}.items():
        (path := Path("files") / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    Path("main.c").write_text(FILES)
    toolchain.build([Path("main.c")], Path("a.elf"), compiler=compiler, options=Options(config=CORE))
    capfd.readouterr()
    assert cli.main([*command.split(), "--files", "files", "--", "a.elf", "--json", "", "a b"]) == 0
    expected = ["one", "22 10", "two 22", "1 -1 1", f"{sum(content)} 253 2", "5 768 700", "1 188 -1", "1 -1", "14 1"]
    assert capfd.readouterr().out.splitlines() == [*expected, "--json", "", "a b"]
    assert cli.main([*command.split(), "a.elf"]) == 1  # ENOENT
    assert refused("iss", "--files", "none", "a.elf") == "--files must be an existing folder, not none"
    assert refused("iss", "a.elf", "x" * (1 << 20)).startswith("arguments must have at most 1048576 bytes")
    assert refused("iss", "a.elf", "x", "--ram", "0x3ff00000:64", "--tarce", "f").startswith("Unknown option: --tarce.")
    assert refused("iss", "a.elf", "x", "--ram", "0x3ff00000:64").startswith("memory must be free at 0x3ff00000")
    (Path("files") / ("n" * 100)).touch()
    assert refused("iss", "--files", "files", "a.elf").startswith("paths in files must have less than 100 bytes")
