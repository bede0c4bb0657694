//go:build !cuda

package cuda

import "io/fs"

// Binaries without the tag do not carry kernels that they could not run.
var compiled fs.FS
