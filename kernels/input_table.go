package kernels

// The ops that turn what is in files and messages into tensors.
func init() {
	Register(
		Def{Op: "ParseExample", Expensive: true, New: newParseExample},
		Def{Op: "ParseExampleV2", Expensive: true, New: newParseExampleV2},
		Def{Op: "ParseSingleExample", Expensive: true, New: newParseSingleExample},
		Def{Op: "ParseSequenceExample", Expensive: true, New: newParseSequenceExample},
		Def{Op: "ParseSequenceExampleV2", Expensive: true, New: newParseSequenceExampleV2},
		Def{Op: "ParseSingleSequenceExample", Expensive: true, New: newParseSingleSequenceExample},
	)
}
