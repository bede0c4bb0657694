package kernels

// Rows are an op's rows for a type of device, for the tests outside of this package.
func Rows(op, deviceType string) []*Def { return registry[op][deviceType] }
