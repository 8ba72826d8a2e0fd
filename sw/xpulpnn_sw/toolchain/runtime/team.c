/* The team of cores for libraries that are compiled once, for a cluster and for one core alike. */

#include <stdlib.h>
#include <xp_team.h>

unsigned xp_team_core(void) { return xp_core(); }
unsigned xp_team_size(void) { return xp_team_cores(); }
void xp_team_wait(void) { xp_barrier(); }

/* In the TCDM, or where there is more room but farther away. */
void *xp_team_malloc(uint32_t size, int is_far) { return is_far ? malloc(size) : xp_l1_malloc(size); }

void xp_team_free(void *memory, int is_far) { is_far ? free(memory) : xp_l1_free(memory); }
