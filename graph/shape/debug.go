package shape

// debugOps are the debugger's ops. DebugNanCount returns a vector, although TensorFlow's rule says that it is a scalar.
var debugOps = []row{
	{"Copy CopyHost DebugIdentity", unchanged},
	{"DebugNanCount", func(c *call) { c.set(0, Of(1)) }},
	{"DebugNumericSummary DebugNumericSummaryV2", unknown},
}
