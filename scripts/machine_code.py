"""Machine code of the kernels in CUDA object files: a hash each, without what a file's place, name or lines change.

The objects are read here: cuobjdump is in no package that nvcc needs, and nvcc compresses large kernels with zstd.
"""

import collections
import ctypes
import hashlib
import re
import struct
import subprocess

FATBIN = 0xBA55ED50
CUBIN = 2  # the other kind of entry is PTX
ZSTD, LZ4 = 0x8000, 0x2000  # flags of an entry
NOBITS = 8  # a section that takes no room in the file

Section = collections.namedtuple("Section", "name kind flags size info data")
Relocation = collections.namedtuple("Relocation", "offset kind symbol addend")

# Compiler's names of what belongs to one file: a hash of its path, the length of its name, its name, a hash.
FILE_TAG = re.compile(r"(?P<length>\d+)_(?P<word>GLOBAL__N|INTERNAL)_(?P<tag>_?[0-9a-f]{8}_(?P<size>\d+)_)")


def without_file_tags(symbol):
    """A mangled name as if its file had no name: anonymous namespaces as in one that g++ has compiled."""
    position = 0
    while found := FILE_TAG.search(symbol, position):
        start = found.start("word") - 1
        # The digits before the tag may begin with the end of another name: only as many as give the length of this one.
        length = found.end() - start + int(found["size"]) + len("_12345678")
        if not found["length"].endswith(str(length)):
            position = found.end()
            continue
        plain = "12_GLOBAL__N_1" if found["word"] == "GLOBAL__N" else "9_INTERNAL"
        symbol = symbol[: start - len(str(length))] + plain + symbol[start + length :]
        position = start
    return re.sub(r"\$__internal_\d+_", "$__internal_", symbol)


def text_at(table, offset):
    return table[offset : table.index(b"\0", offset)].decode()


def sections_of(elf):
    """All sections of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + index * entry) for index in range(count)]
    name_table = elf[headers[names][4] :]
    return [
        Section(
            *(text_at(name_table, name), kind, flags, size, info),
            b"" if kind == NOBITS else elf[offset : offset + size],
        )
        for name, kind, flags, _, offset, size, _, info, _, _ in headers
    ]


def decompressed(data, size):
    """One zstd frame. From the C library: Python has no module for it before 3.14."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        raise ValueError("a kernel is compressed with zstd; install libzstd1") from error
    library.ZSTD_decompress.restype = ctypes.c_size_t
    buffer = ctypes.create_string_buffer(size)
    done = library.ZSTD_decompress(buffer, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if done != size:
        raise ValueError(f"zstd gave {done} instead of {size} bytes")
    return buffer.raw


def cubins_of(fatbins):
    """(architecture, ELF file) of every cubin in a section .nv_fatbin."""
    position = 0
    while position < len(fatbins):
        magic, _, header, size = struct.unpack_from("<IHHQ", fatbins, position)
        if magic != FATBIN:
            raise ValueError(f"no fat binary at byte {position} of .nv_fatbin")
        entry, position = position + header, position + header + size
        while entry < position:
            kind, _, header, size, compressed = struct.unpack_from("<HHIQI", fatbins, entry)
            (architecture,) = struct.unpack_from("<I", fatbins, entry + 28)
            flags, plain_size = struct.unpack_from("<Q8xQ", fatbins, entry + 40)
            data = fatbins[entry + header : entry + header + size]
            if flags & LZ4:
                raise ValueError("a kernel is compressed with LZ4; compile with --compress-mode=default")
            if kind == CUBIN:
                yield architecture, decompressed(data[:compressed], plain_size) if flags & ZSTD else data
            entry += header + size
        position = (position + 7) // 8 * 8


def relocations_of(sections, name):
    """Relocations of the section of that name, with the symbols' names."""
    symbols, strings = (next(one.data for one in sections if one.name == table) for table in (".symtab", ".strtab"))
    for section in sections:
        if section.name not in (".rela" + name, ".rel" + name):
            continue
        form = "<QQq" if section.name.startswith(".rela") else "<QQ"
        for offset, info, *addend in struct.iter_unpack(form, section.data):
            (symbol,) = struct.unpack_from("<I", symbols, (info >> 32) * 24)
            yield Relocation(offset, info & 0xFFFFFFFF, without_file_tags(text_at(strings, symbol)), *(addend or [0]))


def normal_bytes(sections, section):
    """A section's bytes, the relocated ones zero, and its relocations."""
    data = bytearray(section.data)
    relocations = sorted(relocations_of(sections, section.name))
    for relocation in relocations:
        field = slice(relocation.offset, relocation.offset + 8)
        data[field] = bytes(len(data[field]))
    return bytes(data) + repr([tuple(one) for one in relocations]).encode()


def kernel_hash(sections, symbol):
    """What decides how a kernel runs: instructions, registers, static shared memory, constants (bank 0 has parameters)."""
    digest = hashlib.sha256()
    for section in sections:
        bank = re.match(r"\.nv\.constant(\d+)(\.|$)", section.name)
        own = section.name.endswith("." + symbol)
        shared_by_all = section.name in (".nv.constant3", ".nv.global.init")
        if own and section.name.startswith(".text."):
            digest.update(b"text" + struct.pack("<I", section.info >> 24) + normal_bytes(sections, section))
        elif own and section.name.startswith(".nv.shared."):
            digest.update(b"shared" + struct.pack("<Q", section.size))
        elif (own and bank and bank[1] != "0") or shared_by_all:
            label = bank[1] if bank else "global"
            digest.update(label.encode() + normal_bytes(sections, section))
    return digest.hexdigest()[:16]


def demangled(symbols):
    """Readable names without parameter lists, by c++filt of the binutils, which every g++ needs."""
    lines = "\n".join(without_file_tags(symbol) for symbol in symbols)
    done = subprocess.run(["c++filt", "-p"], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def kernels_of(path):
    """{symbol: (name, hash)} of an object file; a kernel's hash is over all architectures that it was compiled for."""
    hashes = collections.defaultdict(list)
    with open(path, "rb") as file:
        sections = sections_of(file.read())
    for section in sections:
        if section.name == ".nv_fatbin":
            for architecture, elf in cubins_of(section.data):
                device = sections_of(elf)
                for text in device:
                    if text.name.startswith(".text."):
                        symbol = text.name.removeprefix(".text.")
                        hashes[symbol].append((architecture, kernel_hash(device, symbol)))
    names = demangled(hashes)
    return {
        symbol: (name, hashlib.sha256(repr(sorted(hashes[symbol])).encode()).hexdigest()[:16])
        for symbol, name in zip(hashes, names)
    }
