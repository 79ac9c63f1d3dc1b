"""How fast models are trained: our recipe beside four others, same model, tokens and machine, each point in fresh processes."""
