"""Lines of the sources from which assembly text comes, and messages of assemblers in terms of them."""

import re
from pathlib import Path

_MARKER = re.compile(r'\s*#\s*(?:line\s+)?(\d+)\s+"((?:\\.|[^"])*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')


class SourcePlaces:
    """Places in the sources, found by line markers of the preprocessor and ``.loc`` directives."""

    def __init__(self, text: str, source: Path) -> None:
        self._lines, self._source = text.split("\n"), source
        self._files = {
            match[1]: match[3] if match[3] and not match[2] else "/".join(filter(None, match.groups()[1:]))
            for line in self._lines
            if (match := _FILE.match(line))
        }

    def of(self, number: int) -> str:
        """``file:line`` of line ``number``, counted from 1; the file alone where nothing tells the line."""
        for index in range(min(number, len(self._lines)) - 1, -1, -1):
            line = self._lines[index]
            if match := _MARKER.match(line):
                if match[2] and not match[2].startswith("<"):
                    return f"{match[2]}:{int(match[1]) + number - index - 2}"
            elif (match := _LOC.match(line)) and match[1] in self._files:
                return f"{self._shown(self._files[match[1]])}:{match[2]}"
        return str(self._source)

    def _shown(self, path: str) -> str:
        """The source as it was given, if it is that one; compilers also write the folder."""
        found = Path(path)
        return str(self._source) if found == self._source or found == self._source.absolute() else path

    def in_messages(self, messages: str, assembly: Path) -> str:
        """Messages of an assembler that read the text from the file ``assembly``, at the places in the sources."""
        start = re.compile(rf"^{re.escape(str(assembly))}(?::(\d+)(?::\d+)?)?:", re.MULTILINE)
        return start.sub(lambda match: f"{self.of(int(match[1])) if match[1] else self._source}:", messages)
