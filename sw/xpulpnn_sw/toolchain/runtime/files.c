/* Calls of POSIX on files, over which the C library opens streams: files are those of a tar archive in memory, to read. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xpulpnn_rt.h>

enum { STANDARD_FILES = 3, FILES = STANDARD_FILES + 16, BLOCK = 512, NAME = 100, SIZE = 124 };

/* The archive, or NULL: simulators set it before the start. */
__attribute__((section(".data.xp_files"))) const char *volatile xp_files = NULL;

static struct file {
    const char *bytes; /* NULL: closed */
    off_t size, place;
} files[FILES] = {{.bytes = ""}, {.bytes = ""}, {.bytes = ""}};

static int fail(int error) { return errno = error, EOF; }
int isatty(int number) { return (unsigned)number < STANDARD_FILES; }

static struct file *opened(int number) {
    if ((unsigned)number < FILES && files[number].bytes != NULL)
        return &files[number];
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
    if ((flags & O_ACCMODE) != O_RDONLY)
        return fail(EROFS);
    struct file file = {.place = 0};
    file.bytes = find(path, &file.size);
    for (int number = 0; file.bytes != NULL && number < FILES; ++number)
        if (files[number].bytes == NULL)
            return files[number] = file, number;
    return file.bytes == NULL ? EOF : fail(EMFILE);
}

int close(int number) {
    struct file *file = opened(number);
    if (file != NULL && !isatty(number))
        file->bytes = NULL;
    return file == NULL ? EOF : 0;
}

ssize_t read(int number, void *bytes, size_t count) {
    struct file *file = opened(number);
    if (file == NULL)
        return EOF;
    size_t rest = file->place < file->size ? (size_t)(file->size - file->place) : 0;
    count = count < rest ? count : rest;
    memcpy(bytes, file->bytes + file->place, count);
    file->place += (off_t)count;
    return (ssize_t)count;
}

ssize_t write(int number, const void *bytes, size_t count) {
    if (number == 0 || !isatty(number))
        return fail(EBADF);
    xp_write(number, bytes, count);
    return (ssize_t)count;
}

off_t lseek(int number, off_t place, int from) {
    struct file *file = opened(number);
    if (file == NULL || isatty(number))
        return file == NULL ? EOF : fail(ESPIPE);
    place += from == SEEK_CUR ? file->place : from == SEEK_END ? file->size : 0;
    return place < 0 ? fail(EINVAL) : (file->place = place);
}

static int describe(struct stat *about, mode_t mode, off_t size) {
    *about = (struct stat){.st_mode = mode, .st_size = size};
    return 0;
}

int fstat(int number, struct stat *about) {
    struct file *file = opened(number);
    return file == NULL ? EOF : describe(about, isatty(number) ? S_IFCHR : S_IFREG | S_IRUSR, file->size);
}

int stat(const char *path, struct stat *about) {
    off_t size;
    return find(path, &size) == NULL ? EOF : describe(about, S_IFREG | S_IRUSR, size);
}

FILE *tmpfile(void) { return (void)fail(EROFS), NULL; }
char *tmpnam(char *name) { return (void)name, NULL; }
int remove(const char *path) { return (void)path, fail(EROFS); }
int rename(const char *path, const char *other) { return (void)other, remove(path); }
int unlink(const char *path) { return remove(path); }

/* That of the C library loses a last line without an end. */
char *fgets(char *text, int size, FILE *file) {
    int count = 0, last = 0;
    while (count + 1 < size && last != '\n' && (last = getc(file)) != EOF)
        text[count++] = (char)last;
    return size == 1 || count != 0 ? (text[count] = '\0', text) : NULL;
}

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
