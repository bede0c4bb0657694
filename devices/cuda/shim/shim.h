// troupe_cuda_open loads and initializes the driver once. It returns NULL, or why that failed.
const char *troupe_cuda_open(void);
