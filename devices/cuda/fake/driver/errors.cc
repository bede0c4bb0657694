#include "errors.h"

#include "state.h"

using namespace fake;

API cuGetErrorName(CUresult error, const char **name) {
  switch ((int)error) {
#define NAME(n, number, text) \
  case number: *name = number ? "CUDA_ERROR_" #n : "CUDA_SUCCESS"; return SUCCESS;
    FAKE_ERRORS(NAME)
  }
  *name = nullptr;
  return INVALID_VALUE;
}

API cuGetErrorString(CUresult error, const char **text) {
  switch ((int)error) {
#define TEXT(n, number, t) \
  case number: *text = t; return SUCCESS;
    FAKE_ERRORS(TEXT)
  }
  *text = nullptr;
  return INVALID_VALUE;
}
