/* What compiled C++ calls, by its names in objects: new and delete over malloc, and the end of a program that goes wrong.
   _Zn is new, _Zd is delete, with `a` of arrays; arguments are `j` sizes, `Pv` pointers, alignments and std::nothrow. */

#include <stdio.h>
#include <stdlib.h>

static __attribute__((noreturn)) void cpp_fail(const char *what) {
    fprintf(stderr, "C++: %s\n", what);
    abort();
}

static void *require(void *memory) {
    if (memory == NULL)
        cpp_fail("out of memory");
    return memory;
}

void *_Znwj(size_t size) { return require(malloc(size)); }
void *_Znaj(size_t size) { return _Znwj(size); }
void *_ZnwjRKSt9nothrow_t(size_t size, const void *nothrow) { return (void)nothrow, malloc(size); }
void *_ZnajRKSt9nothrow_t(size_t size, const void *nothrow) { return _ZnwjRKSt9nothrow_t(size, nothrow); }
void *_ZnwjSt11align_val_t(size_t size, size_t alignment) { return require(aligned_alloc(alignment, size)); }
void *_ZnajSt11align_val_t(size_t size, size_t alignment) { return _ZnwjSt11align_val_t(size, alignment); }
void _ZdlPv(void *memory) { free(memory); }
void _ZdaPv(void *memory) { _ZdlPv(memory); }
void _ZdlPvj(void *memory, size_t size) { (void)size, _ZdlPv(memory); }
void _ZdaPvj(void *memory, size_t size) { (void)size, _ZdaPv(memory); }
void _ZdlPvSt11align_val_t(void *memory, size_t alignment) { (void)alignment, free(memory); }
void _ZdaPvSt11align_val_t(void *memory, size_t alignment) { _ZdlPvSt11align_val_t(memory, alignment); }
void _ZdlPvjSt11align_val_t(void *memory, size_t size, size_t alignment) {
    (void)size, _ZdlPvSt11align_val_t(memory, alignment);
}
void _ZdaPvjSt11align_val_t(void *memory, size_t size, size_t alignment) {
    (void)size, _ZdaPvSt11align_val_t(memory, alignment);
}

void __cxa_throw_bad_array_new_length(void) { cpp_fail("size of an array out of range"); }
void __cxa_pure_virtual(void) { cpp_fail("call of a pure virtual function"); }
void __cxa_deleted_virtual(void) { cpp_fail("call of a deleted virtual function"); }
