// troupe_cuda_open loads and initializes the driver once; NULL, or why that failed.
const char *troupe_cuda_open(void);
