/* Calls of POSIX on files, over which the C library opens streams: files are those of a tar archive in memory, to read. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xpulpnn_rt.h>

enum { STANDARD_FILES = 3, OPEN_FILES = 16, BLOCK = 512, NAME = 100, SIZE = 124 };

/* The archive, or NULL: simulators set it before the start. */
__attribute__((section(".data.xp_files"))) const char *volatile xp_files = NULL;

static struct opened {
    const char *bytes; /* NULL: closed */
    off_t size, place;
} opened[OPEN_FILES];

static int fail(int error) { return errno = error, EOF; }

static struct opened *opened_as(int file) {
    unsigned number = (unsigned)file - STANDARD_FILES;
    if (number < OPEN_FILES && opened[number].bytes != NULL)
        return &opened[number];
    return (void)fail(EBADF), NULL;
}

static const char *find(const char *path, off_t *size) {
    while (*path == '/' || (path[0] == '.' && path[1] == '/'))
        ++path;
    for (const char *header = xp_files; header != NULL && *header != '\0';) {
        *size = (off_t)strtoul(header + SIZE, NULL, 8);
        if (strncmp(header, path, NAME) == 0)
            return header + BLOCK;
        header += (*size + 2 * BLOCK - 1) / BLOCK * BLOCK;
    }
    return (void)fail(ENOENT), NULL;
}

int open(const char *path, int flags, ...) {
    off_t size = 0;
    if ((flags & O_ACCMODE) != O_RDONLY)
        return fail(EROFS);
    const char *bytes = find(path, &size);
    for (int number = 0; bytes != NULL && number < OPEN_FILES; ++number) {
        if (opened[number].bytes == NULL) {
            opened[number] = (struct opened){bytes, size, 0};
            return number + STANDARD_FILES;
        }
    }
    return bytes == NULL ? EOF : fail(EMFILE);
}

int isatty(int file) { return (unsigned)file < STANDARD_FILES; }

int close(int file) {
    struct opened *of = isatty(file) ? NULL : opened_as(file);
    if (of != NULL)
        of->bytes = NULL;
    return of != NULL || isatty(file) ? 0 : EOF;
}

ssize_t read(int file, void *bytes, size_t count) {
    struct opened *of = file == 0 ? NULL : opened_as(file);
    if (of == NULL)
        return file == 0 ? 0 : EOF;
    size_t rest = of->place < of->size ? (size_t)(of->size - of->place) : 0;
    count = count < rest ? count : rest;
    memcpy(bytes, of->bytes + of->place, count);
    of->place += (off_t)count;
    return (ssize_t)count;
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (file <= 0 || file >= STANDARD_FILES)
        return fail(EBADF);
    xp_write(file, bytes, count);
    return (ssize_t)count;
}

off_t lseek(int file, off_t place, int from) {
    struct opened *of = opened_as(file);
    if (of == NULL)
        return EOF;
    place += from == SEEK_CUR ? of->place : from == SEEK_END ? of->size : 0;
    return place < 0 ? fail(EINVAL) : (of->place = place);
}

static int describe(struct stat *about, mode_t mode, off_t size) {
    *about = (struct stat){.st_mode = mode, .st_size = size};
    return 0;
}

int fstat(int file, struct stat *about) {
    struct opened *of = isatty(file) ? NULL : opened_as(file);
    if (of == NULL)
        return isatty(file) ? describe(about, S_IFCHR, 0) : EOF;
    return describe(about, S_IFREG | S_IRUSR, of->size);
}

int stat(const char *path, struct stat *about) {
    off_t size = 0;
    return find(path, &size) == NULL ? EOF : describe(about, S_IFREG | S_IRUSR, size);
}

FILE *tmpfile(void) { return (void)fail(EROFS), NULL; }
int remove(const char *path) { return (void)path, fail(EROFS); }
int rename(const char *path, const char *other) { return (void)other, remove(path); }
int unlink(const char *path) { return remove(path); }

/* Those of the C library forget the character that fscanf or ungetc has put back. */
long ftell(FILE *file) {
    struct __file_ext *stream = (struct __file_ext *)file;
    long place = file->flags & __SEXT ? stream->seek(file, 0, SEEK_CUR) : fail(ESPIPE);
    return place > 0 ? place - (file->unget != 0) : place;
}

int fseek(FILE *file, long place, int from) {
    struct __file_ext *stream = (struct __file_ext *)file;
    if (from == SEEK_CUR)
        place += ftell(file);
    if (!(file->flags & __SEXT) || stream->seek(file, place, from == SEEK_CUR ? SEEK_SET : from) < 0)
        return EOF;
    file->flags &= (uint8_t)~__SEOF;
    file->unget = 0;
    return 0;
}

off_t ftello(FILE *file) { return ftell(file); }
int fseeko(FILE *file, off_t place, int from) { return fseek(file, place, from); }
int fgetpos(FILE *file, fpos_t *place) { return (*place = ftell(file)) < 0 ? EOF : 0; }
int fsetpos(FILE *file, fpos_t *place) { return fseek(file, (long)*place, SEEK_SET); }
