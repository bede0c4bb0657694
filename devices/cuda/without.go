package cuda

import "errors"

// ErrWithout is the error of a build without CUDA.
var ErrWithout = errors.New("this binary was built without CUDA: build it on Linux with -tags cuda and cgo (make cuda)")
