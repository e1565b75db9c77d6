"""Starting the ranks: the launchers as data, the choice between them, and life inside somebody else's launcher."""
