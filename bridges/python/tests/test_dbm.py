"""mqkv.dbm, and shelves on it."""

import dbm
import pathlib
import shelve
import threading

import pytest

import mqkv
import mqkv.dbm
from mqkv import home


def test_flags(queue):
    with pytest.raises(mqkv.dbm.error):
        mqkv.dbm.open("db")
    with pytest.raises(mqkv.dbm.error):
        mqkv.dbm.open("db", "w")
    with pytest.raises(mqkv.dbm.error):
        mqkv.dbm.open("db", "x")
    with mqkv.dbm.open("db", "c") as db:
        db["a"] = "1"
    with mqkv.dbm.open("db", "c") as db:
        assert db["a"] == b"1"
    with mqkv.dbm.open("db") as db:
        assert db["a"] == b"1" == db.setdefault("a", "2")
        for write in (lambda: db.update(a="2"), db.clear, lambda: db.pop("a"),
                      lambda: db.setdefault("b", "2"), lambda: db.__setitem__("a", "2"),
                      lambda: db.__delitem__("a")):
            with pytest.raises(mqkv.dbm.error):
                write()
    with mqkv.dbm.open("db", "w") as db:
        db["b"] = b"2"
    with mqkv.dbm.open("db", "n") as db:
        assert len(db) == 0 and db.keys() == []
    with mqkv.dbm.open(pathlib.Path("db"), "r", 0o600, queue=queue) as db:
        assert db.get("a") is None
    for wrong in ("", "a\0b"):
        with pytest.raises(ValueError):
            mqkv.dbm.open(wrong, "c")
    assert issubclass(mqkv.dbm.error, OSError)


def test_databases_are_apart(client):
    with mqkv.dbm.open("one", "c") as one, mqkv.dbm.open("one2", "c") as two, \
            mqkv.dbm.open(b"on", "c") as three:
        one["k"], two["k"], three["k"] = "1", "2", "3"
        one[""] = "empty"
        assert one["k"] == b"1" and two["k"] == b"2" and three["k"] == b"3" and one[b""] == b"empty"
        assert sorted(one.keys()) == [b"", b"k"] and two.keys() == [b"k"]
        one.clear()
        assert len(one) == 0 and len(two) == 1 and len(three) == 1
    client.put("other", "1")
    with mqkv.dbm.open("one") as one:
        assert len(one) == 0


def test_it_is_what_dbm_is(queue, tmp_path):
    """The same steps on this and on the standard library's."""
    def steps(db):
        db["a"], db[b"b"] = b"1", "2"
        assert "a" in db and b"b" in db and "c" not in db
        assert db.get("c") is None and db.get("c", b"x") == b"x" and db["a"] == b"1"
        assert db.setdefault("c", b"3") == b"3" and db.setdefault("a", b"9") == b"1"
        assert sorted(db.keys()) == [b"a", b"b", b"c"] and len(db) == 3
        del db["c"]
        with pytest.raises(KeyError):
            db["c"]
        with pytest.raises(KeyError):
            del db["c"]
        assert sorted((key, db[key]) for key in db.keys()) == [(b"a", b"1"), (b"b", b"2")]
        if hasattr(db, "firstkey"):
            seen, key = [], db.firstkey()
            while key is not None:
                seen.append(key)
                key = db.nextkey(key)
            assert sorted(seen) == [b"a", b"b"]
            db.reorganize()
            db.sync()

    with dbm.open(str(tmp_path / "x"), "n") as db:
        steps(db)
    with mqkv.dbm.open("x", "n") as db:
        steps(db)
        assert db.nextkey("z") is None
    with pytest.raises(mqkv.dbm.error):
        db["a"]
    with pytest.raises(mqkv.dbm.error):
        db["a"] = "1"
    with pytest.raises(mqkv.dbm.error):
        db.keys()
    db.close()


def test_shelves(queue):
    with mqkv.dbm.open_shelf("shelf") as shelf:
        shelf["plan"] = {"steps": [1, 2, (3, None)]}
        shelf["größe"] = 5
    with mqkv.dbm.open_shelf("shelf", "r") as shelf:
        assert shelf["plan"] == {"steps": [1, 2, (3, None)]}
        assert sorted(shelf) == ["größe", "plan"] and len(shelf) == 2 and "plan" in shelf
        with pytest.raises(mqkv.dbm.error):
            shelf["plan"] = 1
    with mqkv.dbm.open_shelf("shelf", writeback=True) as shelf:
        shelf["plan"]["steps"].append("more")
    with shelve.Shelf(mqkv.dbm.open("shelf", "w")) as shelf:
        assert shelf["plan"]["steps"][-1] == "more"
        del shelf["größe"]
        assert list(shelf.items()) == [("plan", shelf["plan"])]


def test_many_programs_have_it_open(queue):
    def work(number):
        with mqkv.dbm.open("shared", "c") as db:
            for i in range(50):
                db[f"{number}:{i}"] = str(i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with mqkv.dbm.open("shared") as db:
        assert len(db) == 200


def test_a_database_in_a_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("MQKV_QUEUE", "/nobody-serves-this")
    with pytest.raises(mqkv.NoServer, match=r"mqkv.dbm.open\('~/x', 'c', directory=...\)"):
        mqkv.dbm.open("~/x", "c", timeout=0.1)
    monkeypatch.setattr(home, "IDLE_EXIT", "300ms")
    with mqkv.dbm.open("x", "c", directory=tmp_path / "d") as db:
        db["a"] = "1"
    with mqkv.dbm.open("x", directory=tmp_path / "d") as db:
        assert db["a"] == b"1"
