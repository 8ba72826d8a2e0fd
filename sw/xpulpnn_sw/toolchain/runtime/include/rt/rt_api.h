/* Name of the runtime header in older PULP sources. */
#include "../pmsis.h"
