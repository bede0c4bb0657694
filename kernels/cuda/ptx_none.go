//go:build !cuda

package cuda

import "io/fs"

// Without the tag a binary carries no kernels that it could not run.
var compiled fs.FS
