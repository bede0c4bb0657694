package kernels

// The ops that keep tensors in a session from one run to the next.
func init() {
	Register(
		Def{Op: "GetSessionHandle", New: newGetSessionHandle},
		Def{Op: "GetSessionHandleV2", New: newGetSessionHandle},
		Def{Op: "GetSessionTensor", New: newGetSessionTensor},
		Def{Op: "DeleteSessionTensor", New: newDeleteSessionTensor},
	)
}
