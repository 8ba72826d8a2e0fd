/* What compiled C++ calls: new and delete over malloc, and the end of a program that goes wrong. size_t is `j` in names. */

#include <stdio.h>
#include <stdlib.h>

#define NAMED(name) __asm__(#name)

static __attribute__((noreturn)) void cpp_fail(const char *what) {
    fprintf(stderr, "C++: %s\n", what);
    abort();
}

void *cpp_new(size_t size) NAMED(_Znwj);
void *cpp_new_array(size_t size) NAMED(_Znaj);
void *cpp_new_or_null(size_t size, const void *nothrow) NAMED(_ZnwjRKSt9nothrow_t);
void *cpp_new_array_or_null(size_t size, const void *nothrow) NAMED(_ZnajRKSt9nothrow_t);
void *cpp_new_aligned(size_t size, size_t alignment) NAMED(_ZnwjSt11align_val_t);
void *cpp_new_array_aligned(size_t size, size_t alignment) NAMED(_ZnajSt11align_val_t);
void cpp_delete(void *memory) NAMED(_ZdlPv);
void cpp_delete_array(void *memory) NAMED(_ZdaPv);
void cpp_delete_sized(void *memory, size_t size) NAMED(_ZdlPvj);
void cpp_delete_array_sized(void *memory, size_t size) NAMED(_ZdaPvj);
void cpp_delete_aligned(void *memory, size_t alignment) NAMED(_ZdlPvSt11align_val_t);
void cpp_delete_array_aligned(void *memory, size_t alignment) NAMED(_ZdaPvSt11align_val_t);
void cpp_delete_sized_aligned(void *memory, size_t size, size_t alignment) NAMED(_ZdlPvjSt11align_val_t);
void cpp_delete_array_sized_aligned(void *memory, size_t size, size_t alignment) NAMED(_ZdaPvjSt11align_val_t);
void cpp_bad_length(void) NAMED(__cxa_throw_bad_array_new_length);
void cpp_pure_virtual(void) NAMED(__cxa_pure_virtual);
void cpp_deleted_virtual(void) NAMED(__cxa_deleted_virtual);

void *cpp_new(size_t size) {
    void *memory = malloc(size != 0 ? size : 1);
    if (memory == NULL)
        cpp_fail("out of memory");
    return memory;
}

void *cpp_new_array(size_t size) { return cpp_new(size); }
void *cpp_new_or_null(size_t size, const void *nothrow) { return (void)nothrow, malloc(size != 0 ? size : 1); }
void *cpp_new_array_or_null(size_t size, const void *nothrow) { return cpp_new_or_null(size, nothrow); }

void *cpp_new_aligned(size_t size, size_t alignment) {
    void *memory = aligned_alloc(alignment, size != 0 ? size : 1);
    if (memory == NULL)
        cpp_fail("out of memory");
    return memory;
}

void *cpp_new_array_aligned(size_t size, size_t alignment) { return cpp_new_aligned(size, alignment); }
void cpp_delete(void *memory) { free(memory); }
void cpp_delete_array(void *memory) { cpp_delete(memory); }
void cpp_delete_sized(void *memory, size_t size) { (void)size, cpp_delete(memory); }
void cpp_delete_array_sized(void *memory, size_t size) { (void)size, cpp_delete_array(memory); }
void cpp_delete_aligned(void *memory, size_t alignment) { (void)alignment, free(memory); }
void cpp_delete_array_aligned(void *memory, size_t alignment) { (void)alignment, free(memory); }
void cpp_delete_sized_aligned(void *memory, size_t size, size_t alignment) { (void)size, (void)alignment, free(memory); }
void cpp_delete_array_sized_aligned(void *memory, size_t size, size_t alignment) {
    (void)size, (void)alignment, free(memory);
}

void cpp_bad_length(void) { cpp_fail("size of an array out of range"); }
void cpp_pure_virtual(void) { cpp_fail("call of a pure virtual function"); }
void cpp_deleted_virtual(void) { cpp_fail("call of a deleted virtual function"); }
