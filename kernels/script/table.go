package script

import "github.com/troupe-run/troupe/kernels"

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("PyFunc", call(false))
	op("PyFuncStateless", call(false))
	op("EagerPyFunc", call(true))
	return table
}
