package shape

// lookupOps are the ops on hash tables. A table's handle refers to its keys and values.
var lookupOps = []row{
	{"HashTableV2 AnonymousHashTable", scalarOut},
	{"MutableHashTableV2 AnonymousMutableHashTable", func(c *call) { c.setTable(Scalar(), Scalar()) }},
	{"MutableHashTableOfTensorsV2 AnonymousMutableHashTableOfTensors", func(c *call) { c.setTable(Scalar(), c.attrShape("value_shape")) }},
	{"MutableDenseHashTableV2 AnonymousMutableDenseHashTable", func(c *call) { c.setTable(c.atMost(c.in(0), 1), c.attrShape("value_shape")) }},
	{"HashTable MutableDenseHashTable MutableHashTable MutableHashTableOfTensors", pairOut},
	{"InitializeTable", func(c *call) {
		c.pair(0)
		c.merge(c.vector(1), c.in(2))
	}},
	{"InitializeTableV2", func(c *call) {
		c.scalar(0)
		c.merge(c.vector(1), c.in(2))
	}},
	{"InitializeTableFromTextFile", func(c *call) {
		c.pair(0)
		c.scalar(1)
	}},
	{"InitializeTableFromTextFileV2", takes(0, 0)},
	{"LookupTableExport", func(c *call) {
		c.pair(0)
		c.set(0, Of(-1))
	}},
	{"LookupTableExportV2", func(c *call) {
		c.scalar(0)
		c.table("Tkeys", "Tvalues")
	}},
	{"LookupTableFind", func(c *call) {
		c.pair(0)
		c.atMost(c.in(2), 1)
	}},
	{"LookupTableFindV2", lookupTableFind},
	{"LookupTableImport LookupTableInsert", func(c *call) { c.pair(0) }},
	{"LookupTableImportV2", func(c *call) {
		c.scalar(0)
		c.equal(c.vector(1).at(0), c.atLeast(c.in(2), 1).at(0))
	}},
	{"LookupTableInsertV2", takes(0)},
	{"LookupTableRemoveV2", func(c *call) {
		c.scalar(0)
		c.atLeast(c.in(1), 1)
	}},
	{"LookupTableSize", pairsToScalars},
	{"LookupTableSizeV2", gives(ranks(0), Scalar())},
}

func (c *call) setTable(key, value Shape) {
	c.set(0, Scalar())
	c.setHandles(0, []Handle{{c.Type("key_dtype"), key}, {c.Type("value_dtype"), value}})
}

// table returns the tensors behind the first input's handle, with the types checked, or nil if they are unknown.
func (c *call) table(keyAttr, valueAttr string) []Handle {
	h := c.handles(0)
	if len(h) != 2 {
		return nil
	}
	for i, attr := range []string{keyAttr, valueAttr} {
		if t := c.Type(attr); t != h[i].DType {
			c.fail("Trying to read value with wrong dtype. Expected %v got %v", h[i].DType, t)
		}
	}
	return h
}

func lookupTableFind(c *call) {
	c.scalar(0)
	h := c.table("Tin", "Tout")
	if h == nil || !h[0].Shape.known || !c.in(1).known {
		return
	}
	keys, key := c.in(1), h[0].Shape
	if len(keys.dims) < len(key.dims) {
		c.fail("Expected keys to have suffix %v but saw shape: %v", key, keys)
		return
	}
	c.set(0, join(c.sub(keys, 0, len(keys.dims)-len(key.dims)), h[1].Shape))
}
