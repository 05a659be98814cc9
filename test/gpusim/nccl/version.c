/*
 * The version that this build of the library stands for.
 */
extern const int api_version;
const int api_version = GPUSIM_NCCL_VERSION;
