package variant

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Register registers the decoders for received elements of variant tensors. It must be called once per process.
func Register() {
	tensor.RegisterVariant(compositeName, readComposite)
	tensor.RegisterVariant(listName, readList)
	tensor.RegisterVariant(optionName, readOptional)
	tensor.RegisterVariant(raggedName, readRagged)
	tensor.RegisterVariant(boxedName, readBoxed)
	tensor.RegisterVariant(mapName, readMap)
	tensor.RegisterVariant(csrName, readCSR)
	registerScalars()
}
