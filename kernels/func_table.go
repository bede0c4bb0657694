package kernels

// The ops that call functions of the graph's library.
func init() {
	Register(
		Def{Op: "PartitionedCall", New: newPartitionedCall},
		Def{Op: "StatefulPartitionedCall", New: newPartitionedCall},
		Def{Op: "If", New: newIf},
		Def{Op: "StatelessIf", New: newIf},
		Def{Op: "_If", New: newIf},
		Def{Op: "Case", New: newCase},
		Def{Op: "StatelessCase", New: newCase},
		Def{Op: "While", New: newWhile},
		Def{Op: "StatelessWhile", New: newWhile},
		Def{Op: "_While", New: newWhile},
		Def{Op: "For", New: newFor},
		Def{Op: "RemoteCall", New: newRemoteCall},
		Def{Op: "DeviceIndex", New: newDeviceIndex},
		Def{Op: "ToBool", New: always(toBool)},
		Def{Op: "FakeParam", New: newFakeParam},
		Def{Op: "_ListToArray", New: always(passAll)},
		Def{Op: "_ArrayToList", New: always(passAll)},
		Def{Op: "SymbolicGradient", New: newSymbolicGradient},
	)
}
