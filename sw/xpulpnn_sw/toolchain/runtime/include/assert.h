/* May be included again with another NDEBUG, so there is no include guard. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : xp_assert_failed(#condition, __FILE__, __LINE__))
#endif
void xp_assert_failed(const char *condition, const char *file, int line) __attribute__((noreturn));
