package shape

// debugOps are the ops of the debugger. What DebugNanCount gives is a vector, though TensorFlow's rule says that it is a scalar.
var debugOps = []row{
	{"Copy CopyHost DebugIdentity", unchanged},
	{"DebugNanCount", func(c *call) { c.set(0, Of(1)) }},
	{"DebugNumericSummary DebugNumericSummaryV2", unknown},
}
