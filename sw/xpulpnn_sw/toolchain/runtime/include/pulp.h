/* Name of the runtime header in the oldest PULP sources. */
#include "pmsis.h"
